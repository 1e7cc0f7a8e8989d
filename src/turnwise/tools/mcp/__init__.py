"""The tools of MCP servers: `McpServer(command=…)` or `McpServer(url=…)`."""

from turnwise.tools.mcp.toolset import McpServer

__all__ = ["McpServer"]
