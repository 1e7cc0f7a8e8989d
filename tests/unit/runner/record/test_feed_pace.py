"""A feed that is filled from the log is filled as fast as its fastest reader reads."""

import asyncio
from datetime import UTC, datetime

import pytest

from turnwise.facts.events import Event
from turnwise.runner.record.feed import EventFeed


def stored(number: int) -> Event:
    return Event(id=f"e{number}", sequence=number, author="a", invocation_id="i", created_at=datetime(2026, 1, 1, tzinfo=UTC))


async def waits(feed: EventFeed) -> bool:
    """Returns whether the feed's writer has to wait now."""
    task = asyncio.create_task(feed.wanted())
    for _ in range(5):
        await asyncio.sleep(0)
    is_waiting = not task.done()
    task.cancel()
    return is_waiting


async def test_without_readers_nothing_waits() -> None:
    feed = EventFeed()
    feed.publish(stored(1))
    assert not await waits(feed)


async def test_the_writer_waits_until_one_reader_has_taken_everything() -> None:
    feed = EventFeed()
    feed.publish(stored(1))
    feed.publish(stored(2))
    slow, fast = feed.read(), feed.read()
    await anext(slow)
    assert await waits(feed)
    assert [(await anext(fast)).sequence for _ in range(2)] == [1, 2]
    next_ = asyncio.ensure_future(anext(fast))
    assert not await waits(feed)
    feed.publish(stored(3))
    assert (await next_).sequence == 3
    await fast.aclose()  # type: ignore[attr-defined]
    assert await waits(feed)
    await slow.aclose()  # type: ignore[attr-defined]
    assert await waits(feed)


async def test_nothing_is_kept_for_readers_that_have_gone() -> None:
    """J3: the writer waits for a new reader, and is told when none came."""
    feed = EventFeed()
    feed.publish(stored(1))
    reader = feed.read()
    await anext(reader)
    await reader.aclose()  # type: ignore[attr-defined]
    assert await waits(feed)
    assert not await feed.wanted(0)
    again = feed.read()
    assert (await anext(again)).sequence == 1
    writer = asyncio.create_task(feed.wanted(0))
    await asyncio.sleep(0)
    assert not writer.done()  # a reader that is there has as much time as it needs
    next_ = asyncio.ensure_future(anext(again))
    assert await writer
    feed.close()
    with pytest.raises(StopAsyncIteration):
        await next_


async def test_a_result_that_is_wanted_goes_on_without_readers() -> None:
    feed = EventFeed()
    feed.publish(stored(1))
    reader = feed.read()
    await anext(reader)
    await reader.aclose()  # type: ignore[attr-defined]
    writer = asyncio.create_task(feed.wanted(60))
    await asyncio.sleep(0)
    result = asyncio.create_task(feed.complete())
    assert await writer
    feed.close()
    await result


async def test_a_caller_that_needs_all_events_does_not_wait_for_a_slow_reader() -> None:
    feed = EventFeed()
    feed.publish(stored(1))
    slow = feed.read()
    await anext(slow)
    result = asyncio.create_task(feed.complete())
    assert not await waits(feed)
    feed.close()
    await result


async def test_a_closed_feed_lets_its_writer_go() -> None:
    feed = EventFeed()
    feed.publish(stored(1))
    slow = feed.read()
    await anext(slow)
    writer = asyncio.create_task(feed.wanted())
    await asyncio.sleep(0)
    feed.close()
    await writer
