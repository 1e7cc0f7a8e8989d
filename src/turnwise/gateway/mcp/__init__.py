"""The front door as a server of the Model Context Protocol, below /mcp and over standard input and output.

Needs the extra `mcp`: nothing imports this before it is known to be there.
"""

from turnwise.gateway.mcp.endpoint import Endpoint
from turnwise.gateway.mcp.form import form

__all__ = ["Endpoint", "form"]
