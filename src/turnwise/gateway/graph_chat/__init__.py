"""The two paths of the reference router, as its clients know them (behaviour C12)."""

from turnwise.gateway.graph_chat.routes import router
from turnwise.gateway.graph_chat.schema import error_response

__all__ = ["error_response", "router"]
