"""The Prometheus metrics endpoint, at `/metrics` outside the API's prefix."""

from fastapi import Request, Response

from turnwise.facts.errors import NothingHere
from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.openapi import api_router
from turnwise.gateway.front import TheFront, TheServices

router = api_router("standing")


@router.get(
    "/metrics",
    summary="Metrics",
    response_class=Response,
    response_description="Metrics in a Prometheus format.",
    responses={**problems(404), 200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def get_metrics(request: Request, front: TheFront, services: TheServices) -> Response:
    """Returns the metrics of this process. Needs the permission `metrics:read`."""
    services.scope.require("metrics:read")
    if front.metrics is None:
        raise NothingHere("Metrics are not enabled.", fix="Pass `Metrics` to `front_for`.")
    body, media_type = await front.metrics.render(request.headers.get("accept", ""))
    return Response(body, headers={"Content-Type": media_type})
