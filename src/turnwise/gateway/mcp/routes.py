"""`POST /mcp`: who asks is let in, and handed over to the library.

Nothing is kept between requests, also for clients of before 2026, so that any process can answer any of them. So there are
no sessions of the protocol's own, and no stream by which a server speaks first: GET and DELETE are not for this path.
"""

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

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
JSON = "application/json"


class Endpoint:
    """The routes, and what goes on behind them as long as the gateway is served. For one app."""

    def __init__(self, config: McpConfig) -> None:
        self._config = config
        self._manager: StreamableHTTPSessionManager | None = None
        self.router = APIRouter(include_in_schema=False)
        for path in ("", "/"):
            self.router.add_api_route(path, self._hand_over, methods=["POST"])

    @asynccontextmanager
    async def running(self, front: Front) -> AsyncIterator[None]:
        """Requests are answered while it is entered."""
        self._manager = StreamableHTTPSessionManager(
            server_for(front.runner.app, self._config, http_request),
            stateless=True,
            security_settings=transport_security(front.config),
            max_request_body_size=sys.maxsize,  # bodies are bounded before they come here
        )
        async with self._manager.run():
            yield

    async def _hand_over(self, request: Request, front: TheFront, caller: TheCaller) -> Response:
        check_headers(request.headers, front.config)
        if self._manager is None:
            raise NotReady("The gateway does not serve yet.", fix="Ask again soon.")
        return _TransportResponse(self._manager)


class _TransportResponse(Response):
    """The library's answer."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        super().__init__()
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The library compares letter by letter. Names of hosts are the same in capitals.
        headers = MutableHeaders(raw=list(scope["headers"]))
        for name in ("Host", "Origin"):
            if name in headers:
                headers[name] = headers[name].lower()
        await self._manager.handle_request({**scope, "headers": headers.raw}, receive, send)


def transport_security(config: GatewayConfig) -> TransportSecuritySettings:
    """What the library checks against DNS rebinding: where everybody is let in, only names of this machine count, and only its
    own pages and those of gateway.origins.

    Where a credential is needed no page has one by itself, and the gateway may have any name; `check_headers` looks at the origin.
    """
    if config.auth is not None:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    hosts = [host for name in LOCAL_HOSTS for host in (name, f"{name}:*")]
    own = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=[*own, *config.origins])


def check_headers(headers: Headers, config: GatewayConfig) -> None:
    """Whether the request may be handed over. Forbidden for a web page of an origin that is not named, RequestInvalid for a
    body that is no JSON. Where there is no auth, others have looked at the origin.
    """
    origin = headers.get("Origin")
    if config.auth is not None and origin is not None and not _is_named(origin, config.origins):
        raise Forbidden("Web pages of this origin may not call /mcp.", fix="Name the page's origin in gateway.origins.")
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() != JSON:
        fix = f"Send the header Content-Type: {JSON}, if it is."
        raise RequestInvalid("The body is not JSON by what its header says.", fix=fix, where=("header", "Content-Type"))


def _is_named(origin: str, origins: Collection[str]) -> bool:
    return ANY_ORIGIN in origins or origin.lower() in origins
