"""The A2A protocol: JSON-RPC (`/a2a`), the HTTP binding (`/a2a/rest`), the agent card, and push notifications."""

from turnwise.gateway.a2a.errors import rest_error_response, rpc_error_response
from turnwise.gateway.a2a.push import running_pusher
from turnwise.gateway.a2a.routes import card_router, rest_router, rpc_router

__all__ = ["card_router", "rest_error_response", "rest_router", "rpc_error_response", "rpc_router", "running_pusher"]
