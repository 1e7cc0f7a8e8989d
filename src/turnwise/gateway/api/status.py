"""Routes about the process: probes without a credential, metrics, the caller, the policy, and all processes."""

from importlib.metadata import version as version_of

from fastapi import Request, Response

from turnwise.access.rights import RIGHTS, may, reaches_all
from turnwise.facts.errors import NothingHere
from turnwise.gateway.api.errors import problems
from turnwise.gateway.front import TheFront, TheServices
from turnwise.gateway.openapi import OPEN, Responses, api_router
from turnwise.runner.rests import AgentRests
from turnwise.wire.resources import (
    Alive,
    Me,
    Operations,
    PolicyShown,
    ProcessShown,
    Ready,
    RestingAgent,
    SegmentShown,
    StageShown,
    Version,
)

router = api_router("standing")


@router.get(
    "/me",
    summary="Get the caller",
    response_model=Me,
    response_description="The caller and its rights.",
    responses=problems(),
)
async def get_me(front: TheFront, services: TheServices) -> Me:
    """Returns who the caller is, what its credential permits, and which app this is. Takes any valid credential."""
    caller = services.scope.caller
    granted = [permission for permission in RIGHTS[caller.role] if may(caller, permission)]
    return Me(
        user=caller.user,
        role=caller.role,
        acts_for_users=caller.acts_for_users,
        permissions={each: "all" if reaches_all(caller, each) else "own" for each in granted},
        authenticated=front.config.auth is not None,
        artifacts=front.runner.artifacts is not None,
        definitions=front.state.editor is not None,
        app=front.runner.app,
        policy=front.runner.cascade.spec.name,
        version=version_of("turnwise"),
    )


@router.get(
    "/policy",
    summary="Get the policy",
    response_model=PolicyShown,
    response_description="The policy.",
    responses=problems(),
)
async def get_policy(front: TheFront, services: TheServices) -> PolicyShown:
    """Returns the policy that selects agents. For operators: needs the permission `metrics:read`."""
    services.scope.require("metrics:read")
    cascade = front.runner.cascade
    spec = cascade.spec
    return PolicyShown(
        name=spec.name,
        fingerprint=cascade.fingerprint,
        tree_version=front.runner.tree.version,
        default=spec.default or front.runner.tree.root,
        several=spec.several,
        stages=[
            StageShown(name=name, selector=stage.selector, options=stage.options)
            for name, stage in zip(spec.stage_names(), spec.stages, strict=True)
        ],
        segments=[
            SegmentShown(
                name=each.label,
                when={key: [value] if isinstance(value, str) else list(value) for key, value in each.when.items()},
                options=each.options,
                default=each.default,
            )
            for each in spec.segments
        ],
    )


@router.get(
    "/operations",
    summary="Get processes and queues",
    response_model=Operations,
    response_description="The processes and queues of the app.",
    responses=problems(),
)
async def get_operations(front: TheFront, services: TheServices) -> Operations:
    """Returns the processes that share this app's store, their leases, the queued messages, and the resting agents.

    Needs the permission `metrics:read`.
    """
    services.scope.require("metrics:read")
    store, app = front.runner.store, front.runner.app
    queued = await store.inbox.lengths(app)
    processes = [
        ProcessShown(
            name=each.name,
            started_at=each.started_at,
            silent_seconds=max(0.0, round(each.silent_seconds, 1)),
            timeout_seconds=each.timeout_seconds,
            sessions=each.sessions,
        )
        for each in await store.leases.holders(app)
    ]
    return Operations(
        processes=processes,
        queued_messages=queued.messages,
        queued_sessions=queued.sessions,
        longest_queue=queued.longest,
        guardrail_threads_stuck=front.runner.checks.stuck,
        resting=await _resting(front.runner.rests),
    )


async def _resting(rests: AgentRests) -> list[RestingAgent]:
    """Returns the agents that rest now, after reading the rests that other processes changed."""
    await rests.refresh()
    return [
        RestingAgent(agent=name, until=rest.until, rests=rest.count, probing=rest.probed_at is not None)
        for name, rest in sorted(rests.resting().items())
        if rest.until is not None
    ]


probe_router = api_router("standing")
_OPEN: Responses = {status: problems()[status] for status in (400, 500)}


@probe_router.get(
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


@probe_router.get(
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


@probe_router.get(
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


metrics_router = api_router("standing")


@metrics_router.get(
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
