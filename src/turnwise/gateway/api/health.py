"""Whether this process is alive, and can serve. No credential is needed, and nothing else is told."""

from importlib.metadata import version as version_of

from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.openapi import Responses, api_router
from turnwise.gateway.credentials import OPEN
from turnwise.gateway.front import TheFront
from turnwise.wire.resources import Alive, Version

router = api_router("standing")
_OPEN: Responses = {status: problems()[status] for status in (400, 500)}


@router.get(
    "/health", summary="Is it alive?", response_model=Alive, response_description="It is.", responses=_OPEN, openapi_extra=OPEN
)
async def is_alive() -> Alive:
    """Whether this process answers at all. If it does not, start it anew."""
    return Alive(status="alive")


@router.get(
    "/ready",
    summary="Can it serve?",
    response_model=Alive,
    response_description="It can.",
    responses={**_OPEN, 503: problems()[503]},
    openapi_extra=OPEN,
)
async def is_ready(front: TheFront) -> Alive:
    """Whether messages should be sent here: the store takes writes, the policy is prepared, and it is not being stopped."""
    await front.standing.check()
    return Alive(status="ready")


@router.get(
    "/version",
    summary="Which version is it?",
    response_model=Version,
    response_description="Turnwise's.",
    responses=_OPEN,
    openapi_extra=OPEN,
)
async def get_version() -> Version:
    """The version of Turnwise."""
    return Version(version=version_of("turnwise"))
