"""Whatever is raised, inside and around the routes, becomes an answer in the form of the path's protocol."""

import logging
from collections.abc import Callable
from contextlib import suppress

from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnwise.facts.errors import TurnwiseError
from turnwise.gateway.problems import Form, answered, answered_defect

POLICY_VIOLATION, INTERNAL_ERROR = 1008, 1011
"""With which codes a web socket is closed."""

log = logging.getLogger("turnwise.gateway")


class AnsweredProblems:
    """Answers what is raised; what should not happen is logged with its cause, and answered without it.

    A client that leaves before its body is whole is no defect: it is noted, and gets no answer.
    When the answer has begun already, the connection is closed in the middle of it.
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
            log.info("The client left before its request was whole.")
        except Exception as error:
            known = error if isinstance(error, TurnwiseError) else None
            if known is None:
                log.error("A request was not served because of a defect.", exc_info=error)
            if scope["type"] == "websocket":
                with suppress(RuntimeError):  # it may be closed already
                    await send({"type": "websocket.close", "code": INTERNAL_ERROR if known is None else POLICY_VIOLATION})
            elif not begun:
                asked = HTTPConnection(scope)
                answer = answered_defect(asked, self._form_for) if known is None else answered(known, asked, self._form_for)
                await answer(scope, receive, send)
