"""Every request has an id: in its answer, in the log, and in what it sets off."""

import re
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnwise.telemetry.log_context import request_context

HEADER = "X-Request-ID"
_NAME = HEADER.lower().encode()
_GIVEN = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class RequestIds:
    """Takes the sender's id if it is a plain one, else makes one; `state.request_id` of the connection."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        id_ = _id_of(scope)
        scope.setdefault("state", {})["request_id"] = id_

        async def send_with_id(message: Message) -> None:
            if message["type"] in {"http.response.start", "websocket.accept", "websocket.http.response.start"}:
                message.setdefault("headers", [])
                MutableHeaders(scope=message)[HEADER] = id_
            await send(message)

        with request_context(id_):
            await self._app(scope, receive, send_with_id)


def _id_of(scope: Scope) -> str:
    given: bytes = next((value for name, value in scope["headers"] if name == _NAME), b"")
    return given.decode() if _GIVEN.fullmatch(given) else secrets.token_hex(8)


class TraceContext:
    """Joins the trace of whoever asks, if he names one. Needs the extra `otel`."""

    def __init__(self, app: ASGIApp) -> None:
        from turnwise.telemetry.spans import join_trace

        self._app, self._joined = app, join_trace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        with self._joined(Headers(scope=scope)):
            await self._app(scope, receive, send)


NOTHING = "default-src 'none'; frame-ancestors 'none'"
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "content-security-policy": NOTHING,
}
_USUAL = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class SecurityHeaders:
    """Adds those headers that an answer does not have."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name.lower() for name, _ in given}
                message["headers"] = given + [header for header in _USUAL if header[0] not in names]
            await send(message)

        await self._app(scope, receive, send_with_headers)
