"""The protocols that are switched on. A protocol that needs an extra is imported only if it is on."""

from collections.abc import Iterator

from turnwise.config.gateway_entries import is_installed
from turnwise.facts.gateway import Protocols, Switch
from turnwise.gateway import adk, graph_chat, openai
from turnwise.gateway.api import routes as api
from turnwise.gateway.protocol import Protocol


def protocols(config: Protocols) -> Iterator[Protocol]:
    """Yields the REST API and the protocols that are on; a longer prefix comes before its own prefix."""
    if is_on(config.graph_chat):
        yield Protocol("/api/v1/graph-chat", graph_chat.router, graph_chat.error_response)
    yield Protocol("/api/v1", api.router, api.error_response)
    if is_on(config.openai):
        yield Protocol("/v1", openai.router, openai.error_response)
    if is_on(config.adk):
        yield Protocol(adk.PREFIX, adk.router_for(config.adk), adk.error_response)
    if is_on(config.ag_ui):
        from turnwise.gateway import ag_ui  # its models take a while to import

        yield Protocol("/ag-ui", ag_ui.router, ag_ui.error_response)
    if is_on(config.a2a, "a2a"):
        from turnwise.gateway import a2a

        yield Protocol("/a2a/rest", a2a.rest_router, a2a.rest_error_response)
        yield Protocol("/a2a", a2a.rpc_router, a2a.rpc_error_response, a2a.running_pusher, a2a.card_router)
    if is_on(config.mcp, "mcp"):
        from turnwise.gateway import mcp

        endpoint = mcp.Endpoint(config.mcp)
        yield Protocol("/mcp", endpoint.router, mcp.error_response, endpoint.running)


def is_on(switch: Switch, extra: str | None = None) -> bool:
    """Returns whether the protocol is on. `extra` is the extra that it needs, which has to be installed."""
    return switch.on is not False and (extra is None or is_installed(extra))
