"""Headers of all requests and responses: request id, trace context, security headers, HEAD, and compression of JSON."""

import asyncio
import gzip
import re
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnwise.gateway.problems import accepts_method
from turnwise.telemetry.logs import request_context

HEADER = "X-Request-ID"
_NAME = HEADER.lower().encode()
_VALID_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class RequestIds:
    """Sets `state.request_id` and the response header `X-Request-ID`: the client's id if it is valid, otherwise a new one."""

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
    return given.decode() if _VALID_ID.fullmatch(given) else secrets.token_hex(8)


class TraceContext:
    """Continues the trace that the request names. Needs the extra `otel`."""

    def __init__(self, app: ASGIApp) -> None:
        from turnwise.telemetry.traces import join_trace

        self._app, self._joined = app, join_trace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        with self._joined(Headers(scope=scope)):
            await self._app(scope, receive, send)


CONTENT_POLICY = "default-src 'none'; frame-ancestors 'none'"
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "content-security-policy": CONTENT_POLICY,
}
_ENCODED = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class SecurityHeaders:
    """Adds the security headers that a response does not set itself."""

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
                message["headers"] = given + [header for header in _ENCODED if header[0] not in names]
            await send(message)

        await self._app(scope, receive, send_with_headers)


STREAM = b"text/event-stream"


class HeadRequests:
    """Runs GET for a HEAD request, without the body, on paths without their own HEAD route. A stream ends after its headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] != "http"
            or scope["method"] != "HEAD"
            or accepts_method(scope, "HEAD")
            or not accepts_method(scope, "GET")
        ):
            await self._app(scope, receive, send)
            return
        answer, asked = _HeadResponse(send), {**scope, "method": "GET"}
        answer.task = asyncio.create_task(self._run(asked, receive, answer.send))
        try:
            await answer.task
        except asyncio.CancelledError:
            if not answer.is_over:
                raise
        if "route" in asked:
            scope["route"] = asked["route"]  # the access log reads it

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class _HeadResponse:
    """Forwards the response's start and drops its body. `is_over` is set when the response is complete."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.task: asyncio.Task[None] | None = None
        self.is_over = False

    async def send(self, message: Message) -> None:
        """Sends the response's head without its body, and ends a stream at once."""
        if message["type"] != "http.response.start":
            if not message.get("more_body", False):
                await self._end()
            return
        await self._send(message)
        if _is_stream(message):
            await self._end()
            assert self.task is not None
            self.task.cancel()

    async def _end(self) -> None:
        if not self.is_over:
            self.is_over = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _is_stream(message: Message) -> bool:
    return any(name.lower() == b"content-type" and value.startswith(STREAM) for name, value in message.get("headers", ()))


LEAST_BYTES = 4_096
"""Smaller responses are sent as they are: they fit into few packets."""
LEVEL = 4


class CompressedJson:
    """Compresses JSON bodies that come in one piece. Streams, files and bodies with an encoding stay as they are."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or "gzip" not in Headers(scope=scope).get("accept-encoding", ""):
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def send_compressed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_json(message):
                start = message
                return
            if start is not None:
                begun, start = start, None
                if message["type"] == "http.response.body":
                    message = _compressed(begun, message)
                await send(begun)
            await send(message)

        await self._app(scope, receive, send_compressed)


def _is_json(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    return headers.get("content-type", "").startswith("application/json") and "content-encoding" not in headers


def _compressed(start: Message, message: Message) -> Message:
    """Returns the body as it is sent, and sets the headers of `start` accordingly."""
    body = message.get("body", b"")
    if message.get("more_body", False) or len(body) < LEAST_BYTES:
        return message
    headers = MutableHeaders(raw=start["headers"])
    headers.add_vary_header("Accept-Encoding")
    packed = gzip.compress(body, LEVEL)
    headers["Content-Encoding"] = "gzip"
    headers["Content-Length"] = str(len(packed))
    if etag := headers.get("etag"):
        headers["ETag"] = etag if etag.startswith("W/") else f"W/{etag}"
    return {**message, "body": packed}
