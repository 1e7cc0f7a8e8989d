"""The gateway's own REST API, below `/api/v1`, assembled from the routers of its resources.

Request and response bodies are the models of `turnwise.wire`.
"""

from fastapi import APIRouter, Depends

from turnwise.gateway.api import (
    agents,
    artifacts,
    decisions,
    definitions,
    experiments,
    invocations,
    memories,
    messages,
    records,
    sessions,
    status,
)
from turnwise.gateway.api.errors import error_response
from turnwise.gateway.api.parameters import check_parameters

router = APIRouter()
# Requests are matched in this order, so the most frequent routes come first.
_PARTS = (
    messages.router,
    memories.router,
    sessions.router,
    invocations.router,
    artifacts.router,
    decisions.router,
    agents.inspection_router,  # before definitions, one of which could be named `lint`
    definitions.router,
    experiments.router,
    records.router,
    agents.router,
    status.router,
)
for part in _PARTS:
    router.include_router(part, dependencies=[Depends(check_parameters)])
router.include_router(status.probe_router)  # probes accept any query parameters
root_router = status.metrics_router
"""Routes outside the prefix of any protocol."""

__all__ = ["error_response", "root_router", "router"]
