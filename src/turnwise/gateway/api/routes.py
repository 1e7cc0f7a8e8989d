"""The router of the REST API, assembled from the routers of its resources."""

from fastapi import APIRouter, Depends

from turnwise.gateway.api import (
    agents,
    artifacts,
    decisions,
    definitions,
    experiments,
    health,
    inspection,
    invocations,
    memories,
    messages,
    metrics,
    records,
    reports,
    reviews,
    sessions,
    status,
)
from turnwise.gateway.api.errors import error_response
from turnwise.gateway.api.parameters import check_parameters

router = APIRouter()
# Requests are matched in this order, so the most frequent routes come first.
_PARTS = (
    messages,
    memories,
    sessions,
    invocations,
    artifacts,
    decisions,
    reviews,
    reports,
    inspection,
    definitions,
    experiments,
    records,
    agents,
    status,
)
for part in _PARTS:
    router.include_router(part.router, dependencies=[Depends(check_parameters)])
router.include_router(health.router)  # probes accept any query parameters
root_router = metrics.router
"""Routes outside the prefix of any protocol."""

__all__ = ["error_response", "root_router", "router"]
