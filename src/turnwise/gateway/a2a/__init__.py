"""A2A: other agents as callers, by JSON-RPC (`/a2a`) and by HTTP (`/a2a/rest`), and the agent card."""

from turnwise.gateway.a2a.card_route import router as card
from turnwise.gateway.a2a.notifying.pushing import pushing
from turnwise.gateway.a2a.refusals import rest_form, rpc_form
from turnwise.gateway.a2a.rest import router as rest
from turnwise.gateway.a2a.rpc import router as rpc

__all__ = ["card", "pushing", "rest", "rest_form", "rpc", "rpc_form"]
