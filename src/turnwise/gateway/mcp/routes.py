"""The route `POST /mcp`: authenticates the caller and passes the request to the MCP library.

The server is stateless for every protocol version, so any process can answer any request. It has no protocol sessions, so GET
and DELETE are not supported. The one stream of the server is the answer to `subscriptions/listen`.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from fastapi import APIRouter, Request
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from turnwise.config.gateway_entries import ANY_ORIGIN
from turnwise.facts.errors import Forbidden, NotReady, RequestInvalid
from turnwise.facts.gateway import GatewayConfig, McpConfig
from turnwise.gateway.front import Front, TheCaller, TheFront
from turnwise.gateway.mcp.request import http_request
from turnwise.gateway.mcp.server import server_for
from turnwise.gateway.mcp.tool_list import ToolChanges

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
JSON = "application/json"


class Endpoint:
    """The routes of one app, and the library's session manager while the gateway is served."""

    def __init__(self, config: McpConfig) -> None:
        self._config = config
        self._manager: StreamableHTTPSessionManager | None = None
        self.router = APIRouter(include_in_schema=False)
        for path in ("", "/"):
            self.router.add_api_route(path, self._hand_over, methods=["POST"])

    @asynccontextmanager
    async def running(self, front: Front) -> AsyncIterator[None]:
        """Serves requests while the context is entered."""
        changes = ToolChanges()
        self._manager = StreamableHTTPSessionManager(
            server_for(front.runner.app, self._config, http_request, changes),
            stateless=True,
            security_settings=transport_security(front.config),
            max_request_body_size=sys.maxsize,  # a middleware limits bodies
        )
        async with self._manager.run(), _announced(changes, front):
            yield

    async def _hand_over(self, request: Request, front: TheFront, caller: TheCaller) -> Response:
        check_headers(request.headers, front.config)
        if self._manager is None:
            raise NotReady("The gateway does not serve yet.", fix="Ask again soon.")
        return _TransportResponse(self._manager)


@asynccontextmanager
async def _announced(changes: ToolChanges, front: Front) -> AsyncIterator[None]:
    """Announces changes, and ends the streams when this process closes: they would hold up its end."""

    async def end() -> None:
        await front.closing.wait()
        changes.close()

    task, stop = asyncio.create_task(end()), changes.follow(front.runner)
    try:
        yield
    finally:
        stop()
        changes.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class _TransportResponse(Response):
    """The library's response."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        super().__init__()
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Host names are case-insensitive, and the library compares exactly.
        headers = MutableHeaders(raw=list(scope["headers"]))
        for name in ("Host", "Origin"):
            if name in headers:
                headers[name] = headers[name].lower()
        await self._manager.handle_request({**scope, "headers": headers.raw}, receive, send)


def transport_security(config: GatewayConfig) -> TransportSecuritySettings:
    """Returns the library's protection against DNS rebinding.

    Without auth only local host names are accepted, and only local origins and those of `gateway.origins`. With auth it is off:
    a page has no credential of its own, the gateway may have any name, and `check_headers` checks the origin.
    """
    if config.auth is not None:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    hosts = [host for name in LOCAL_HOSTS for host in (name, f"{name}:*")]
    own = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=[*own, *config.origins])


def check_headers(headers: Headers, config: GatewayConfig) -> None:
    """Checks the headers before the request reaches the library.

    Raises:
        Forbidden: The web page's origin is not allowed. Checked here with auth only; `transport_security` covers the other
            case.
        RequestInvalid: The body is not declared as JSON.
    """
    origin = headers.get("Origin")
    if config.auth is not None and origin is not None and not _is_named(origin, config.origins):
        raise Forbidden("Web pages of this origin may not call /mcp.", fix="Name the page's origin in gateway.origins.")
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() != JSON:
        fix = f"Send the header Content-Type: {JSON}, if it is."
        raise RequestInvalid("The Content-Type header does not declare JSON.", fix=fix, where=("header", "Content-Type"))


def _is_named(origin: str, origins: Collection[str]) -> bool:
    return ANY_ORIGIN in origins or origin.lower() in origins
