"""What a command needs that the base installation does not bring."""

from importlib.util import find_spec

from turnwise.facts.errors import MissingExtra

SERVER = ("fastapi", "uvicorn", "websockets", "jwt", "prometheus_client", "ag_ui", "fastapi_offline")
"""The modules without which no gateway can be made."""


def need_server(command: str) -> None:
    """MissingExtra when the server's libraries are not all installed."""
    if any(find_spec(module) is None for module in SERVER):
        raise MissingExtra(command, "serve")


def need_mcp(command: str) -> None:
    """MissingExtra when the library of MCP is not installed."""
    if find_spec("mcp") is None:
        raise MissingExtra(command, "mcp")
