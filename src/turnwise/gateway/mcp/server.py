"""Builds the MCP server: one handler for each method, error mapping, and input limits."""

import logging
from importlib.metadata import version
from typing import Any

from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
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

from turnwise.facts.errors import TurnwiseError
from turnwise.facts.gateway import McpConfig
from turnwise.gateway.mcp import resources, tool_list
from turnwise.gateway.mcp.errors import error_of
from turnwise.gateway.mcp.request import Context, RequestFactory
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
