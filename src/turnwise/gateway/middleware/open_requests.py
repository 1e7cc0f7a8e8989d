"""Counts open requests and sent bytes for the quotas of their callers."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnwise.facts.callers import Caller

CountBytes = Callable[[Caller, int], Awaitable[None]]


class OpenRequests:
    """Frees a caller's place when its request ends, and counts the bytes of its response.

    `caller_of` takes the place: it enters the quota into the request's state `places`.

    Args:
        app: The wrapped application.
        count: Counts sent bytes.
    """

    def __init__(self, app: ASGIApp, count: CountBytes) -> None:
        self._app, self._count = app, count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})

        async def send_counted(message: Message) -> None:
            await send(message)
            size = _size(message)
            if size and (caller := state.get("caller")) is not None:
                await self._count(caller, size)

        async with AsyncExitStack() as places:
            state["places"] = places
            await self._app(scope, receive, send_counted)


def _size(message: Message) -> int:
    """Returns the number of content bytes in a message to the client."""
    if message["type"] == "http.response.body":
        return len(message.get("body", b""))
    if message["type"] == "websocket.send":
        return len(message.get("bytes") or (message.get("text") or "").encode())
    return 0
