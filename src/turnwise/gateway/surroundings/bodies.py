"""Bodies come from somebody who may enter, in time, not too large, and are counted."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnwise.facts.callers import Caller
from turnwise.facts.errors import RequestTimeout, RequestTooLarge
from turnwise.gateway.problems import Raised

PACE = 64 * 1024
"""For so many bytes that came a body gets a second more: a large one comes through a slow line, one that drips does not."""

Enter = Callable[[HTTPConnection], Awaitable[Caller]]
Count = Callable[[Caller, int], Awaitable[None]]


class Bodies:
    """Before the first byte of a body is read, whoever sends it has to be let in.

    enter: gives the caller, or raises. count: told of bytes that came, or are announced; raises when they are too many.
    json_bytes: the largest body, but for those that are no JSON: they may have upload_bytes, if that is more. Whatever is
    wrong is raised out of `receive`, as `Raised`.
    """

    def __init__(self, app: ASGIApp, enter: Enter, count: Count, json_bytes: int, upload_bytes: int, seconds: float) -> None:
        self._app, self._enter, self._count = app, enter, count
        self._json_bytes, self._upload_bytes, self._seconds = json_bytes, upload_bytes, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if not (_announced(headers) or "transfer-encoding" in headers):
            await self._app(scope, receive, send)  # there is no body
            return
        most = self._json_bytes if _is_json(headers) else max(self._json_bytes, self._upload_bytes)
        body = _Body(HTTPConnection(scope), receive, self._enter, self._count, most, self._seconds, _announced(headers))
        await self._app(scope, body.receive, send)


class _Body:
    """One body on its way. announced: its length; None = it is not known before, or there is none."""

    def __init__(
        self,
        connection: HTTPConnection,
        receive: Receive,
        enter: Enter,
        count: Count,
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
        if self._complete:
            return await self._receive()
        try:
            return await self._next()
        except Exception as error:
            raise Raised(error) from error

    async def _next(self) -> Message:
        if self._caller is None:
            self._check(self._announced or 0)
            self._caller = await self._enter(self._connection)
            self._began = asyncio.get_running_loop().time()
            if self._announced:
                await self._count(self._caller, self._announced)
        try:
            async with asyncio.timeout_at(self._began + self._seconds + self._came / PACE):
                message = await self._receive()
        except TimeoutError:
            raise RequestTimeout("The body did not come in time.", fix="Send it again, faster or in parts.") from None
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


def _announced(headers: Headers) -> int | None:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else None
