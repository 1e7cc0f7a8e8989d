"""The graph-chat protocol: the two routes of the reference router, unchanged for its clients (behaviour C12)."""

from turnwise.gateway.graph_chat.routes import router
from turnwise.gateway.graph_chat.schema import error_response

__all__ = ["error_response", "router"]
