"""A line for every request, with nothing in it that is secret or a user's: neither ids in paths, nor queries, nor headers."""

import logging
import time
from collections.abc import Collection, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LEFT = 499
"""Instead of a status, when whoever asked was gone before there was one."""
UPGRADED = 101
QUIET = frozenset({"/api/v1/health", "/api/v1/ready", "/metrics"})
"""What machines ask all the time is only told when there is something wrong."""

log = logging.getLogger("turnwise.gateway.access")


class AccessLog:
    """Logs method, the path's template, status and milliseconds, when the answer is complete.

    prefixes: below which paths the routers are. fixed: paths besides, of which nothing is a user's.
    """

    def __init__(self, app: ASGIApp, prefixes: Sequence[str], fixed: Collection[str]) -> None:
        self._app, self._prefixes, self._fixed = app, prefixes, fixed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), LEFT

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
        path = self._template(scope)
        if path in QUIET and status < 500:
            return
        caller = scope["state"].get("caller")
        method = scope.get("method", "GET")
        more = {"method": method, "path": path, "status": status, "ms": round(ms, 1)}
        if caller is not None:
            more["caller"] = caller.id
        log.info("%s %s %d in %.1f ms", method, path, status, ms, extra=more)

    def _template(self, scope: Scope) -> str:
        """The path with names instead of what was sent; what no route is for is not told, as it may be anything."""
        path = scope["path"]
        if path in self._fixed or path in self._prefixes:
            return str(path)
        below = next((prefix for prefix in self._prefixes if path.startswith(prefix + "/")), "")
        known: str = getattr(scope.get("route"), "path", "") or "/…"
        return known if below and known.startswith(below + "/") else below + known  # of a web socket's it is the whole
