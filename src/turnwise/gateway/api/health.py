"""Liveness, readiness and version probes. They need no credential and return nothing else."""

from importlib.metadata import version as version_of

from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.openapi import Responses, api_router
from turnwise.gateway.documentation import OPEN
from turnwise.gateway.front import TheFront
from turnwise.wire.resources import Alive, Ready, Version

router = api_router("standing")
_OPEN: Responses = {status: problems()[status] for status in (400, 500)}


@router.get(
    "/health",
    summary="Liveness probe",
    response_model=Alive,
    response_description="The process is alive.",
    responses=_OPEN,
    openapi_extra=OPEN,
)
async def is_alive() -> Alive:
    """Returns 200 as long as the process responds. If it does not respond, restart it."""
    return Alive(status="alive")


@router.get(
    "/ready",
    summary="Readiness probe",
    response_model=Ready,
    response_description="The process accepts messages.",
    responses={**_OPEN, 503: problems()[503]},
    openapi_extra=OPEN,
)
async def is_ready(front: TheFront) -> Ready:
    """Returns 200 if the process accepts messages: the store is writable, the policy is prepared, and no shutdown is in
    progress.

    Guardrail threads that are stuck are reported, but do not make the process unready.
    """
    await front.health.check()
    sets = front.runner.sets
    return Ready(
        status="ready",
        guardrail_threads_stuck=front.runner.checks.stuck,
        revision=sets.current.revision,
        refused=sets.problem.code if sets.problem is not None else "",
    )


@router.get(
    "/version",
    summary="Get the version",
    response_model=Version,
    response_description="The version of Turnwise.",
    responses=_OPEN,
    openapi_extra=OPEN,
)
async def get_version() -> Version:
    """Returns the version of Turnwise that the gateway runs."""
    return Version(version=version_of("turnwise"))
