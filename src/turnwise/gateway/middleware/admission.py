"""Checks requests before the routes: authentication, timeout and size of bodies, encoding of paths, and local access."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnwise.facts.callers import Caller
from turnwise.facts.errors import Forbidden, RequestError, RequestTimeout, RequestTooLarge
from turnwise.gateway.problems import RaisedProblem

BYTES_PER_SECOND = 64 * 1024
"""A body's timeout grows by a second for this many bytes received, so slow but steady uploads succeed."""

Authenticate = Callable[[HTTPConnection], Awaitable[Caller]]
CountBytes = Callable[[Caller, int], Awaitable[None]]


class RequestBodies:
    """Authenticates the caller before the first byte of a body is read, and limits the body's time and size.

    Every error is raised from `receive` as `RaisedProblem`.

    Args:
        app: The wrapped application.
        enter: Returns the caller, or raises.
        count: Counts received or announced bytes, and raises if the quota is used up.
        json_bytes: The maximum size of a JSON body.
        upload_bytes: The maximum size of other bodies, if it is larger.
        seconds: The base timeout of a body.
    """

    def __init__(
        self, app: ASGIApp, enter: Authenticate, count: CountBytes, json_bytes: int, upload_bytes: int, seconds: float
    ) -> None:
        self._app, self._enter, self._count = app, enter, count
        self._json_bytes, self._upload_bytes, self._seconds = json_bytes, upload_bytes, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if not (_content_length(headers) or "transfer-encoding" in headers):
            await self._app(scope, receive, send)  # there is no body
            return
        most = self._json_bytes if _is_json(headers) else max(self._json_bytes, self._upload_bytes)
        body = _Body(HTTPConnection(scope), receive, self._enter, self._count, most, self._seconds, _content_length(headers))
        await self._app(scope, body.receive, send)


class _Body:
    """One request body. `announced` is its Content-Length; None if it is not known."""

    def __init__(
        self,
        connection: HTTPConnection,
        receive: Receive,
        enter: Authenticate,
        count: CountBytes,
        most: int,
        seconds: float,
        announced: int | None,
    ) -> None:
        self._connection, self._receive = connection, receive
        self._enter, self._count = enter, count
        self._most, self._seconds, self._announced = most, seconds, announced
        self._caller: Caller | None = None
        self._began, self._came, self._complete = 0.0, 0, False

    async def receive(self) -> Message:
        """Receives the next part of the body; errors are wrapped, so that the application does not handle them."""
        if self._complete:
            return await self._receive()
        try:
            return await self._receive_within_timeout()
        except Exception as error:
            raise RaisedProblem(error) from error

    async def _receive_within_timeout(self) -> Message:
        """Receives the next part within the timeout, after authentication, and counts its bytes against limit and quota."""
        if self._caller is None:
            self._check(self._announced or 0)
            self._caller = await self._enter(self._connection)
            self._began = asyncio.get_running_loop().time()
            if self._announced:
                await self._count(self._caller, self._announced)
        try:
            async with asyncio.timeout_at(self._began + self._seconds + self._came / BYTES_PER_SECOND):
                message = await self._receive()
        except TimeoutError:
            raise RequestTimeout("The body did not arrive in time.", fix="Send it again, faster or in parts.") from None
        self._complete = message["type"] != "http.request" or not message.get("more_body", False)
        came = len(message.get("body", b""))
        self._came += came
        self._check(self._came)
        if came and self._announced is None:
            await self._count(self._caller, came)
        return message

    def _check(self, size: int) -> None:
        if size > self._most:
            raise RequestTooLarge(
                f"The body is larger than {self._most:,} bytes.", fix="Send less at once, or raise gateway.body_bytes."
            )


def _is_json(headers: Headers) -> bool:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "" or kind.endswith("json")


def _content_length(headers: Headers) -> int | None:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else None


class PlainTextPaths:
    """Rejects requests with a path or query that is not UTF-8 or contains NUL. Raises RequestError."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"}:
            for what, given in (("path", scope.get("raw_path") or b""), ("query", scope.get("query_string") or b"")):
                if not _is_text(given):
                    raise RequestError(f"The {what} is not UTF-8 text, or contains NUL.", fix="Send it percent-encoded UTF-8.")
        await self._app(scope, receive, send)


def _is_text(given: bytes) -> bool:
    """Returns whether a path or query is UTF-8 without NUL once it is unquoted."""
    if b"%" not in given:
        return given.isascii() and b"\0" not in given
    plain = unquote_to_bytes(given)
    try:
        plain.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in plain


_LOCAL_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE)


class LocalOnly:
    """Rejects requests whose Host is not this machine, and those of web pages with another origin that is not in
    `origins`.

    Raises Forbidden.
    """

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self._app, self._origins = app, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"}:
            headers = Headers(scope=scope)
            hosts = headers.getlist("host")
            if len(hosts) != 1 or not _LOCAL_HOST.fullmatch(hosts[0]):
                raise Forbidden(
                    "Without gateway.auth, this gateway is reached as localhost, 127.0.0.1 or [::1] only.",
                    fix="Use one of these names, or set gateway.auth.",
                )
            origin = headers.get("origin")
            if origin is not None and origin not in self._origins and not _is_same_origin(origin, hosts[0]):
                raise Forbidden(
                    "Without gateway.auth, web pages of other origins may not call this gateway.",
                    fix="Name the page's origin in gateway.origins, or set gateway.auth.",
                )
        await self._app(scope, receive, send)


def _is_same_origin(origin: str, host: str) -> bool:
    return origin.lower() in {f"http://{host}".lower(), f"https://{host}".lower()}
