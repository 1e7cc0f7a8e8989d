"""Identifies requests and accounts for them: request id, trace, access log, open requests and sent bytes.

The access log has no ids, queries, headers or other user data.
"""

import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnwise.facts.callers import Caller
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


CLIENT_CLOSED_REQUEST = 499
"""Logged instead of a status if the client disconnected before the response began."""
UPGRADED = 101
QUIET_PATHS = frozenset({"/api/v1/health", "/api/v1/ready", "/metrics"})
"""Paths that monitoring requests constantly. They are logged only with a status of 500 or more."""

log = logging.getLogger("turnwise.gateway.access")


class AccessLog:
    """Logs method, path template, status and duration in milliseconds when the response is complete.

    Args:
        app: The wrapped application.
        prefixes: The path prefixes of the routers.
        fixed: Other paths that contain no user data.
    """

    def __init__(self, app: ASGIApp, prefixes: Sequence[str], fixed: Collection[str]) -> None:
        self._app, self._prefixes, self._fixed = app, prefixes, fixed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), CLIENT_CLOSED_REQUEST

        async def noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] in {"http.response.start", "websocket.http.response.start"}:
                status = message["status"]
            elif message["type"] == "websocket.accept":
                status = UPGRADED
            await send(message)

        try:
            await self._app(scope, receive, noting_status)
        finally:
            self._write(scope, status, (time.perf_counter() - began) * 1000)

    def _write(self, scope: Scope, status: int, ms: float) -> None:
        """Logs one request: method, route template, status, milliseconds, caller. Quiet paths are logged only on errors."""
        path = self._template(scope)
        if path in QUIET_PATHS and status < 500:
            return
        caller = scope["state"].get("caller")
        method = scope.get("method", "GET")
        more = {"method": method, "path": path, "status": status, "ms": round(ms, 1)}
        if caller is not None:
            more["caller"] = caller.id
        log.info("%s %s %d in %.1f ms", method, path, status, ms, extra=more)

    def _template(self, scope: Scope) -> str:
        """Returns the path with parameter names instead of values. The unmatched part of a path is not logged."""
        path = scope["path"]
        if path in self._fixed or path in self._prefixes:
            return str(path)
        below = next((prefix for prefix in self._prefixes if path.startswith(prefix + "/")), "")
        known: str = getattr(scope.get("route"), "path", "") or "/…"
        return known if below and known.startswith(below + "/") else below + known  # a web socket's template has the prefix


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
