"""Events as a stream, with signs of life, and an end when this process is being stopped."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest

from turnwise.gateway.sse import event_stream

HINT = b"come again"
NEVER = 3600.0


def pieces(items: AsyncIterator[str], closing: asyncio.Event | None = None, ping: float = NEVER) -> Any:
    """What the response writes, one by one."""
    response = event_stream(items, str.encode, ping=ping, closing=closing or asyncio.Event(), hint=HINT)
    return response.body_iterator


class Slow:
    """Two items; before the second it waits until it may `go` on. ended: that it was closed or came to its end."""

    def __init__(self) -> None:
        self.go, self.ended = asyncio.Event(), asyncio.Event()

    async def items(self) -> AsyncGenerator[str, None]:
        try:
            yield "one"
            await self.go.wait()
            yield "two"
        finally:
            self.ended.set()


async def test_each_item_is_written_as_it_comes() -> None:
    slow = Slow()
    written = pieces(slow.items())
    assert await anext(written) == b"one"
    slow.go.set()
    assert [piece async for piece in written] == [b"two"]
    assert slow.ended.is_set()


async def test_a_quiet_stream_gives_a_sign_of_life_and_loses_nothing() -> None:
    slow = Slow()
    written = pieces(slow.items(), ping=0.001)
    assert [await anext(written) for _ in range(3)] == [b"one", b": ping\n\n", b": ping\n\n"]
    slow.go.set()
    while (piece := await anext(written)) != b"two":
        assert piece == b": ping\n\n"


async def test_it_ends_with_the_hint_when_this_process_is_stopped() -> None:
    slow, closing = Slow(), asyncio.Event()
    written = pieces(slow.items(), closing)
    assert await anext(written) == b"one"
    closing.set()
    assert [piece async for piece in written] == [HINT]
    assert slow.ended.is_set()


async def test_what_is_there_already_is_still_written() -> None:
    async def ready() -> AsyncIterator[str]:
        yield "one"
        yield "two"

    closing = asyncio.Event()
    closing.set()
    assert [piece async for piece in pieces(ready(), closing)] == [b"one", b"two"]


async def test_a_reader_who_leaves_ends_the_reading() -> None:
    slow = Slow()
    written = pieces(slow.items())
    assert await anext(written) == b"one"
    reading = asyncio.create_task(anext(written))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await written.aclose()
    await slow.ended.wait()


async def test_what_the_items_raise_is_raised() -> None:
    async def failing() -> AsyncIterator[str]:
        yield "one"
        raise ValueError("as asked")

    with pytest.raises(ValueError, match="as asked"):
        [piece async for piece in pieces(failing())]


async def test_proxies_are_told_to_pass_it_on_at_once() -> None:
    async def nothing() -> AsyncIterator[str]:
        return
        yield ""

    response = event_stream(nothing(), str.encode, ping=NEVER, closing=asyncio.Event(), hint=HINT)
    assert (response.headers["x-accel-buffering"], response.headers["cache-control"]) == ("no", "no-cache")
    assert response.media_type == "text/event-stream"
