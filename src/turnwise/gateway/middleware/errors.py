"""Converts exceptions to responses in the format of the path's protocol, and ends requests at shutdown."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnwise.facts.errors import Closing, TurnwiseError
from turnwise.gateway.problems import Form, internal_error_response, problem_response

POLICY_VIOLATION, INTERNAL_ERROR = 1008, 1011
"""Close codes of web sockets."""

log = logging.getLogger("turnwise.gateway")


class ProblemResponses:
    """Responds to exceptions. Unexpected ones are logged with their cause, which the response does not reveal.

    A client that disconnects before its body is complete is logged as info. If the response has begun already, the
    connection is closed in the middle of it.
    """

    def __init__(self, app: ASGIApp, form_for: Callable[[str], Form]) -> None:
        self._app, self._form_for = app, form_for

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noting_start(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, noting_start)
        except ClientDisconnect:
            log.info("The client disconnected before its request was complete.")
        except Exception as error:
            known = error if isinstance(error, TurnwiseError) else None
            if known is None:
                log.error("A request failed with an unexpected exception.", exc_info=error)
            if scope["type"] == "websocket":
                with suppress(RuntimeError):  # it may be closed already
                    await send({"type": "websocket.close", "code": INTERNAL_ERROR if known is None else POLICY_VIOLATION})
            elif not begun:
                asked = HTTPConnection(scope)
                answer = (
                    internal_error_response(asked, self._form_for)
                    if known is None
                    else problem_response(known, asked, self._form_for)
                )
                await answer(scope, receive, send)


SERVICE_RESTART = 1012
"""The close code of web sockets at shutdown."""


class PendingRequests:
    """The requests that are being answered."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[object]] = set()
        self.is_over = False

    def cut_short(self) -> None:
        """Cancels all of them."""
        self.is_over = True
        for task in self.tasks:
            task.cancel()


class ShutdownResponses:
    """Raises Closing in requests that are cancelled at shutdown; closes web sockets."""

    def __init__(self, app: ASGIApp, pending: PendingRequests) -> None:
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
            raise closing_error() from None
        finally:
            self._pending.tasks.discard(task)


def closing_error() -> Closing:
    """Returns the error for requests during shutdown."""
    return Closing("This process is being stopped.", fix="Send it again: the same message id is answered once.")
