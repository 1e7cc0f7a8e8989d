"""All routes of our own API."""

from fastapi import APIRouter, Depends

from turnwise.gateway.api import agents, artifacts, decisions, invocations, messages, metrics, sessions, standing
from turnwise.gateway.api.known_parameters import check_parameters
from turnwise.gateway.api.problem import form

router = APIRouter()
# They are looked through in this order for every request: what is asked most stands first.
for part in (messages, sessions, invocations, artifacts, decisions, agents):
    router.include_router(part.router, dependencies=[Depends(check_parameters)])
router.include_router(standing.router)  # a probe is answered whatever stands in its query
top = metrics.router
"""What is not below any protocol's prefix."""

__all__ = ["form", "router", "top"]
