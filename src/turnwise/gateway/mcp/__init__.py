"""The gateway as an MCP (Model Context Protocol) server, below `/mcp` and over standard input and output.

Requires the extra `mcp`; import it only when that is installed.
"""

from turnwise.gateway.mcp.errors import error_response
from turnwise.gateway.mcp.server import Endpoint

__all__ = ["Endpoint", "error_response"]
