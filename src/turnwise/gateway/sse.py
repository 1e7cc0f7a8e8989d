"""Server-sent event responses with keep-alive comments and an orderly end at shutdown."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, TypeVar

from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse

T = TypeVar("T")
Hint = bytes | Callable[[], bytes]
"""The last bytes of a stream at shutdown. A function is called at that time."""

HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def event_stream(
    items: AsyncIterator[T], write: Callable[[T], bytes], *, ping: float, closing: asyncio.Event, hint: Hint
) -> EventSourceResponse:
    """Returns a response that streams the items.

    Args:
        items: The items to send. Closed when the client disconnects, which has no other effect.
        write: Serializes an item.
        ping: After this many seconds without an item, a comment is sent.
        closing: When set, the stream ends with `hint` without waiting for more items.
        hint: The last bytes at shutdown, which tell the client to reconnect.
    """
    return EventSourceResponse(_serialized(items, write, ping, closing, hint), headers=HEADERS)


async def _serialized(
    items: AsyncIterator[T], write: Callable[[T], bytes], ping: float, closing: asyncio.Event, hint: Hint
) -> AsyncIterator[bytes]:
    """Yields the items as bytes, with keep-alive comments in pauses; at shutdown, a hint to reconnect."""
    closed = asyncio.create_task(closing.wait())
    coming: asyncio.Task[T] | None = None
    try:
        while True:
            coming = coming or asyncio.create_task(_next(items))
            either: set[asyncio.Future[Any]] = {coming, closed}
            await asyncio.wait(either, timeout=ping, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                try:
                    item = coming.result()
                except StopAsyncIteration:
                    return
                coming = None
                yield write(item)
            elif closed.done():
                yield hint if isinstance(hint, bytes) else hint()
                return
            else:
                yield KEEPALIVE_COMMENT
    finally:
        await _cancel(closed)
        if coming is not None:
            await _cancel(coming)
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _cancel(future: "asyncio.Future[Any]") -> None:
    future.cancel()
    with suppress(asyncio.CancelledError, StopAsyncIteration, Exception):
        await future
