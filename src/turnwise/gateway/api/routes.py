"""All routes of our own API."""

from fastapi import APIRouter, Depends

from turnwise.gateway.api import agents, artifacts, decisions, health, invocations, messages, metrics, sessions
from turnwise.gateway.api.errors import form
from turnwise.gateway.api.parameters import check_parameters

router = APIRouter()
# They are looked through in this order for every request: what is asked most stands first.
for part in (messages, sessions, invocations, artifacts, decisions, agents):
    router.include_router(part.router, dependencies=[Depends(check_parameters)])
router.include_router(health.router)  # a probe is answered whatever stands in its query
top = metrics.router
"""What is not below any protocol's prefix."""

__all__ = ["form", "router", "top"]
