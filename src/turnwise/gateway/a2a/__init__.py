"""A2A: other agents as callers, by JSON-RPC (`/a2a`) and by HTTP (`/a2a/rest`), and the agent card."""

from turnwise.gateway.a2a.errors import rest_form, rpc_form
from turnwise.gateway.a2a.push.sender import running_pusher
from turnwise.gateway.a2a.routes import router as card, router as rest, router as rpc

__all__ = ["card", "rest", "rest_form", "rpc", "rpc_form", "running_pusher"]
