"""Events as a stream of server-sent events, with signs of life, and an end when this process is being stopped."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, TypeVar

from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse

T = TypeVar("T")
Hint = bytes | Callable[[], bytes]
"""The last thing written when this process is being stopped; made then, if it depends on what was written before."""

HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def event_stream(
    items: AsyncIterator[T], write: Callable[[T], bytes], *, ping: float, closing: asyncio.Event, hint: Hint
) -> EventSourceResponse:
    """The response that writes each item as it comes, and a comment after so many quiet seconds.

    When `closing` is set it ends with `hint`, which tells the reader to come again; nothing of the items is waited for then.
    A reader who leaves ends the reading, nothing else.
    """
    return EventSourceResponse(_written(items, write, ping, closing, hint), headers=HEADERS)


async def _written(
    items: AsyncIterator[T], write: Callable[[T], bytes], ping: float, closing: asyncio.Event, hint: Hint
) -> AsyncIterator[bytes]:
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
        await _dropped(closed)
        if coming is not None:
            await _dropped(coming)
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _dropped(future: "asyncio.Future[Any]") -> None:
    future.cancel()
    with suppress(asyncio.CancelledError, StopAsyncIteration, Exception):
        await future
