"""When this process leaves, whoever still waits for an answer is told to come again."""

import asyncio
from contextlib import suppress

from starlette.types import ASGIApp, Receive, Scope, Send

from turnwise.facts.errors import Closing

SERVICE_RESTART = 1012
"""The code with which a web socket is closed then."""


class Pending:
    """The requests that are being answered."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[object]] = set()
        self.is_over = False

    def cut_short(self) -> None:
        """Ends all of them."""
        self.is_over = True
        for task in self.tasks:
            task.cancel()


class CutShort:
    """Raises Closing in requests that are cut short; a web socket is closed."""

    def __init__(self, app: ASGIApp, pending: Pending) -> None:
        self._app, self._pending = app, pending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pending.tasks.add(task)
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if not self._pending.is_over:
                raise
            task.uncancel()
            if scope["type"] == "websocket":
                with suppress(RuntimeError):  # it may be closed already
                    await send({"type": "websocket.close", "code": SERVICE_RESTART})
                return
            raise closing() from None
        finally:
            self._pending.tasks.discard(task)


def closing() -> Closing:
    """The error for who comes, or still waits, when this process is being stopped."""
    return Closing("This process is being stopped.", fix="Send it again: the same message id is answered once.")
