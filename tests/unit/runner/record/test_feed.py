import asyncio
import gc
import weakref
from datetime import UTC, datetime

import pytest

from turnwise.facts.content import text_content
from turnwise.facts.events import Event
from turnwise.runner.record.feed import EventFeed


def event(id_: str, sequence: int | None = None, *, partial: bool = False) -> Event:
    return Event(
        id=id_,
        author="a",
        invocation_id="i",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        content=text_content(id_),
        sequence=sequence,
        partial=partial,
    )


async def ids(feed: EventFeed, after: int = 0) -> list[str]:
    return [e.id + ("~" if e.partial else "") async for e in feed.read(after)]


async def test_readers_get_everything_whenever_they_come() -> None:
    feed = EventFeed()
    early = asyncio.create_task(ids(feed))
    await asyncio.sleep(0)
    feed.publish(event("a", 1))
    feed.publish(event("b", 2))
    middle = asyncio.create_task(ids(feed, after=1))
    await asyncio.sleep(0)
    feed.publish(event("c", 3))
    feed.close()
    assert await early == ["a", "b", "c"]
    assert await middle == ["b", "c"]
    assert await ids(feed) == ["a", "b", "c"]


async def test_late_readers_do_not_get_pieces_of_what_they_get_whole() -> None:
    """A19, A22."""
    feed = EventFeed()
    live = asyncio.create_task(ids(feed))
    await asyncio.sleep(0)
    feed.publish(event("a", partial=True))
    await asyncio.sleep(0)
    feed.publish(event("a", 1))
    feed.close()
    assert await live == ["a~", "a"]
    assert await ids(feed) == ["a"]


async def test_pieces_are_not_kept_for_who_is_behind() -> None:
    """A22: a reader who takes nothing costs no more than what is stored."""
    feed = EventFeed()
    behind = feed.read()
    feed.publish(event("before", 1))
    assert (await anext(behind)).id == "before"
    piece = event("a", partial=True)
    kept = weakref.ref(piece)
    feed.publish(piece)
    feed.publish(event("b", partial=True))
    del piece
    assert kept() is not None
    feed.publish(event("a", 2))
    gc.collect()
    assert kept() is None
    feed.close()
    assert [each.id async for each in behind] == ["b", "a"]


async def test_the_problem_reaches_every_reader_after_what_there_is() -> None:
    """A21."""
    feed = EventFeed()
    feed.publish(event("a", 1))
    feed.close(RuntimeError("disk"))
    reader = feed.read()
    assert (await anext(reader)).id == "a"
    with pytest.raises(RuntimeError, match="disk"):
        await anext(reader)
    with pytest.raises(RuntimeError, match="disk"):
        await feed.closed()


async def test_a_reader_that_leaves_does_not_hold_up_others() -> None:
    """A22."""
    feed = EventFeed()
    reader = asyncio.create_task(ids(feed))
    await asyncio.sleep(0)
    reader.cancel()
    await asyncio.sleep(0)
    feed.publish(event("a", 1))
    feed.close()
    assert await ids(feed) == ["a"]
