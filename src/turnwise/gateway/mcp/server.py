"""The MCP server: one handler for each method, error mapping, input limits, and the route `POST /mcp`.

The server is stateless for every protocol version, so any process can answer any request. It has no protocol sessions, so GET
and DELETE are not supported. The one stream of the server is the answer to `subscriptions/listen`.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    ResourcesCapability,
    ServerCapabilities,
)
from pydantic import ValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from turnwise.config.gateway_entries import ANY_ORIGIN
from turnwise.facts.errors import Forbidden, NotReady, RequestInvalid, TurnwiseError
from turnwise.facts.gateway import GatewayConfig, McpConfig
from turnwise.gateway.front import Front, TheCaller, TheFront
from turnwise.gateway.mcp import resources, tool_list
from turnwise.gateway.mcp.errors import error_of
from turnwise.gateway.mcp.request import Context, RequestFactory, http_request
from turnwise.gateway.mcp.tool_calls import call
from turnwise.gateway.mcp.tool_list import ToolChanges
from turnwise.gateway.problems import INTERNAL
from turnwise.wire.messages import MOST_CHARACTERS

NAME = "turnwise"
INSTRUCTIONS = (
    "This server routes to many agents. Pass the user's message to `ask`: the best matching agent is selected and answers. "
    "Continue with the `session` of an answer. `select` shows which agent would answer, `explain` why one was selected."
)
FRESH_MS = 60_000
"""How long clients may cache the list of tools, in milliseconds."""

log = logging.getLogger("turnwise.gateway")


class _McpServer(Server[Any]):
    """The library's server. It announces changes of the list of tools only, not those of resources."""

    def get_capabilities(self, *arguments: Any, **options: Any) -> ServerCapabilities:
        found = super().get_capabilities(*arguments, **options)
        found.resources = ResourcesCapability(subscribe=False, list_changed=False)
        return found


def server_for(app: str, config: McpConfig, request_for: RequestFactory, changes: ToolChanges) -> Server[Any]:
    """Builds the server of an app.

    Args:
        app: The app's name.
        config: The configuration of the protocol.
        request_for: Creates the McpRequest of each call.
        changes: Tells clients that the tools have changed, if each agent is a tool.
    """
    agents = config.agents

    async def list_tools(context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        tools, after = tool_list.tool_page(request_for(context), agents=agents, after=_cursor(params))
        return ListToolsResult(tools=list(tools), next_cursor=after)

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        return await call(context, request_for(context), params, agents=agents)

    async def list_resources(context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        return await resources.list_sessions(request_for(context), _cursor(params))

    async def list_templates(_: Context, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        return resources.templates()

    async def read_resource(context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        return await resources.read_resource(request_for(context), params.uri, context.protocol_version)

    async def answered(ctx: Context, call_next: CallNext) -> HandlerResult:
        """Converts exceptions to protocol errors. Unexpected ones are only described in the log."""
        try:
            return await call_next(ctx)
        except TurnwiseError as error:
            raise error_of(request_for(ctx).problem(error)) from None
        except (MCPError, ValidationError):  # the library's own errors
            raise
        except Exception as error:
            log.error("A request was not served because of a defect.", exc_info=error)
            raise MCPError(INTERNAL_ERROR, "This is a defect of the gateway.", {"code": INTERNAL}) from None

    server = _McpServer(
        NAME,
        version=version("turnwise"),
        title=app,
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": CacheHint(ttl_ms=FRESH_MS, scope="private")},
        # No argument is sent in headers. Without this, the library would page through the tool list for every call.
        get_tool_input_schema=lambda _: None,
        on_list_tools=list_tools,
        on_subscriptions_listen=changes.listen if agents else None,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )
    server.middleware[:] = [_bounded, *server.middleware, answered]
    return server


async def _bounded(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Rejects overlong names, so that they enter neither traces nor progress notifications."""
    name = ctx.params.get("name") if ctx.params else None
    if len(ctx.method) > MOST_CHARACTERS:
        raise MCPError(METHOD_NOT_FOUND, "Method not found")
    if isinstance(name, str) and len(name) > MOST_CHARACTERS:
        raise MCPError(INVALID_PARAMS, "The name is too long.")
    token = progress_token_from_params(ctx.params)
    if isinstance(token, str) and len(token) > MOST_CHARACTERS:
        raise MCPError(INVALID_PARAMS, f"A progress token has {MOST_CHARACTERS} characters at most.")
    return await call_next(ctx)


def _cursor(params: PaginatedRequestParams | None) -> str | None:
    return params.cursor if params is not None else None


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
