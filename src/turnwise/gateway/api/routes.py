"""All routes of our own API."""

from fastapi import APIRouter

from turnwise.gateway.api import agents, artifacts, decisions, invocations, messages, metrics, sessions, standing
from turnwise.gateway.api.problem import form

router = APIRouter()
# They are looked through in this order for every request: what is asked most stands first.
for part in (messages, sessions, invocations, artifacts, decisions, agents, standing):
    router.include_router(part.router)
top = metrics.router
"""What is not below any protocol's prefix."""

__all__ = ["form", "router", "top"]
