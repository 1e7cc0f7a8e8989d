"""One tool of an MCP server."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from turnwise.ports.tool import ToolCall, ToolRules, ToolSpec
from turnwise.tools.mcp.arguments import check_arguments
from turnwise.tools.mcp.contents import json_of

if TYPE_CHECKING:
    from mcp_types import CallToolResult

Ask = Callable[[str, dict[str, Any]], Awaitable["CallToolResult"]]
"""Calls a tool of the server by the server's name for it; ToolFailed when that cannot be done."""


class McpTool:
    def __init__(self, name: str, spec: ToolSpec, rules: ToolRules, ask: Ask) -> None:
        """`name` is the server's, the one of `spec` the model's."""
        self.spec, self.rules = spec, rules
        self._name, self._ask = name, ask

    def __repr__(self) -> str:
        return f"McpTool({self.spec.name!r})"

    def check_call(self, call: ToolCall) -> None:
        check_arguments(self.spec.parameters, call.arguments)

    async def run(self, call: ToolCall) -> JsonValue:
        self.check_call(call)
        return await json_of(await self._ask(self._name, dict(call.arguments)), call, self.spec.name)
