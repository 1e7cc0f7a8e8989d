"""The front door as a server of the Model Context Protocol, below /mcp and over standard input and output.

Needs the extra `mcp`: nothing imports this before it is known to be there.
"""

from turnwise.gateway.mcp.errors import error_response
from turnwise.gateway.mcp.routes import Endpoint

__all__ = ["Endpoint", "error_response"]
