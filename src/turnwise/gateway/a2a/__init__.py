"""A2A: other agents as callers, by JSON-RPC (`/a2a`) and by HTTP (`/a2a/rest`), and the agent card."""

from turnwise.gateway.a2a.errors import rest_error_response, rpc_error_response
from turnwise.gateway.a2a.push.sender import running_pusher
from turnwise.gateway.a2a.routes import card_router, rest_router, rpc_router

__all__ = ["card_router", "rest_error_response", "rest_router", "rpc_error_response", "rpc_router", "running_pusher"]
