"""Completes responses: errors in the format of the path's protocol, the end at shutdown, security headers, HEAD, gzip."""

import asyncio
import gzip
import logging
from collections.abc import Callable
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnwise.facts.errors import Closing, TurnwiseError
from turnwise.gateway.problems import Form, accepts_method, internal_error_response, problem_response

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
