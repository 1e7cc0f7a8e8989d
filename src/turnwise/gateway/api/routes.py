"""All routes of our own API."""

from fastapi import APIRouter

from turnwise.gateway.api import agents, artifacts, decisions, invocations, messages, metrics, sessions, standing
from turnwise.gateway.api.problem import form

router = APIRouter()
for part in (sessions, messages, invocations, artifacts, decisions, agents, standing):
    router.include_router(part.router)
top = metrics.router
"""What is not below any protocol's prefix."""

__all__ = ["form", "router", "top"]
