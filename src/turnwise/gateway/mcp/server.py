"""The server as the library wants it: a function for each method, and what goes for all of them."""

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
)
from pydantic import ValidationError

from turnwise.facts.errors import TurnwiseError
from turnwise.facts.gateway import McpConfig
from turnwise.gateway.mcp import resources, tool_list
from turnwise.gateway.mcp.calls import call
from turnwise.gateway.mcp.errors import error_of
from turnwise.gateway.mcp.request import Context, RequestFactory
from turnwise.gateway.problems import INTERNAL
from turnwise.wire.bounds import MOST_CHARACTERS

NAME = "turnwise"
INSTRUCTIONS = (
    "Behind this server are many agents. Hand what the user says to `ask`: the agent that fits best is selected and answers. "
    "Go on with the `session` that an answer names. `select` tells who would answer, `explain` why somebody did."
)
FRESH_MS = 60_000
"""How long clients may keep the list of tools."""

log = logging.getLogger("turnwise.gateway")


def server_for(app: str, config: McpConfig, enter: RequestFactory) -> Server[Any]:
    """The server in front of that app. enter: tells whose a request is."""
    agents = config.agents

    async def list_tools(context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        tools, after = tool_list.tool_page(enter(context), agents=agents, after=_cursor(params))
        return ListToolsResult(tools=list(tools), next_cursor=after)

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        return await call(context, enter(context), params, agents=agents)

    async def list_resources(context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        return await resources.list_sessions(enter(context), _cursor(params))

    async def list_templates(_: Context, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        return resources.templates()

    async def read_resource(context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        return await resources.read_resource(enter(context), params.uri, context.protocol_version)

    async def answered(ctx: Context, call_next: CallNext) -> HandlerResult:
        """What handlers raise becomes an error of the protocol; what should not happen is told in the log alone."""
        try:
            return await call_next(ctx)
        except TurnwiseError as error:
            raise error_of(enter(ctx).problem(error)) from None
        except (MCPError, ValidationError):  # the library's own words
            raise
        except Exception as error:
            log.error("A request was not served because of a defect.", exc_info=error)
            raise MCPError(INTERNAL_ERROR, "This is a defect of the gateway.", {"code": INTERNAL}) from None

    server: Server[Any] = Server(
        NAME,
        version=version("turnwise"),
        title=app,
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": CacheHint(ttl_ms=FRESH_MS, scope="private")},
        # None of them is told in headers; otherwise the library would go through all pages of the list for every call.
        get_tool_input_schema=lambda _: None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )
    server.middleware[:] = [_bounded, *server.middleware, answered]
    return server


async def _bounded(ctx: Context, call_next: CallNext) -> HandlerResult:
    """What is too long for the name of anything is not named in a trace, nor again with every step of an answer."""
    name = ctx.params.get("name") if ctx.params else None
    if len(ctx.method) > MOST_CHARACTERS:
        raise MCPError(METHOD_NOT_FOUND, "Method not found")
    if isinstance(name, str) and len(name) > MOST_CHARACTERS:
        raise MCPError(INVALID_PARAMS, "There is nothing of that name.")
    token = progress_token_from_params(ctx.params)
    if isinstance(token, str) and len(token) > MOST_CHARACTERS:
        raise MCPError(INVALID_PARAMS, f"A progress token has {MOST_CHARACTERS} characters at most.")
    return await call_next(ctx)


def _cursor(params: PaginatedRequestParams | None) -> str | None:
    return params.cursor if params is not None else None
