"""`Front`: the runner, configuration and services that every protocol's routes use, and their FastAPI dependencies."""

import asyncio
from contextlib import AsyncExitStack
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Header, Query
from starlette.requests import HTTPConnection

from turnwise.access.authenticator import Authenticator
from turnwise.access.quotas import Quotas
from turnwise.facts.callers import Caller
from turnwise.facts.gateway import GatewayConfig
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.agents import Addressees, Agents
from turnwise.gateway.services.artifacts import Artifacts
from turnwise.gateway.services.conversations import Conversations
from turnwise.gateway.services.decisions import Decisions
from turnwise.gateway.services.health import HealthCheck
from turnwise.gateway.services.invocations import Invocations, Tasks
from turnwise.gateway.services.messages import Messages
from turnwise.gateway.services.prices import Prices
from turnwise.gateway.services.pushes import Pushes
from turnwise.gateway.services.session_scope import SessionScope
from turnwise.gateway.services.sessions import Sessions
from turnwise.gateway.services.threads import Threads
from turnwise.runner import Runner
from turnwise.telemetry.metrics import Metrics


class Front(NamedTuple):
    """One app with its configuration and the services of the gateway."""

    runner: Runner
    config: GatewayConfig
    authenticator: Authenticator
    quotas: Quotas
    scope: SessionScope
    messages: Messages
    sessions: Sessions
    invocations: Invocations
    artifacts: Artifacts
    decisions: Decisions
    agents: Agents
    addressees: Addressees
    conversations: Conversations
    threads: Threads
    tasks: Tasks
    pushes: Pushes
    health: HealthCheck
    closing: asyncio.Event
    """Set when this process accepts no more messages."""
    ready: asyncio.Event
    """Set by the server when the policy is prepared."""
    metrics: Metrics | None = None
    """The Prometheus metrics; None if they are off."""
    traced: bool = False
    """Whether requests continue the traces that they name."""


def front(
    runner: Runner,
    config: GatewayConfig,
    authenticator: Authenticator,
    quotas: Quotas,
    metrics: Metrics | None = None,
    *,
    traced: bool = False,
) -> Front:
    """Returns the front of an app. Has to be called inside an event loop."""
    closing, ready, scope = asyncio.Event(), asyncio.Event(), SessionScope(runner)
    messages = Messages(runner, scope, quotas, closing)
    return Front(
        runner=runner,
        config=config,
        authenticator=authenticator,
        quotas=quotas,
        scope=scope,
        messages=messages,
        sessions=Sessions(runner, scope, Prices(runner, quotas)),
        invocations=Invocations(runner, scope, messages),
        artifacts=Artifacts(runner, scope),
        decisions=Decisions(runner, scope),
        agents=Agents(runner, scope),
        addressees=Addressees(runner, scope),
        conversations=Conversations(runner, scope, messages),
        threads=Threads(runner, scope, messages),
        tasks=Tasks(runner, scope),
        pushes=Pushes(runner, scope),
        health=HealthCheck(runner, closing, ready),
        closing=closing,
        ready=ready,
        metrics=metrics,
        traced=traced,
    )


def front_of(connection: HTTPConnection) -> Front:
    """Returns the front that serves the request."""
    front: Front = connection.app.state.front
    return front


async def caller_of(connection: HTTPConnection) -> Caller:
    """Returns the authenticated caller of the request, and counts the request once.

    Raises:
        NotAuthenticated: The credential is missing or invalid.
        TooMany: The caller's rate limit is exceeded, or too many of its requests are open.
    """
    known: Caller | None = getattr(connection.state, "caller", None)
    if known is not None:
        return known
    front = front_of(connection)
    headers = connection.headers
    address = connection.client.host if connection.client else ""
    caller = await front.authenticator.caller(headers.get("Authorization"), headers.get("X-API-Key"), address)
    await front.quotas.request(caller, caller.user)
    places: AsyncExitStack | None = getattr(connection.state, "places", None)
    if places is not None:
        await places.enter_async_context(front.quotas.connection(caller, caller.user))
    connection.state.caller = caller
    return caller


def redactor_of(connection: HTTPConnection) -> Redactor:
    """Returns the redactor for the request's caller."""
    return Redactor(connection.state.caller, front_of(connection).runner.tree)


async def _the_front(connection: HTTPConnection) -> Front:
    # FastAPI runs a dependency that is not a coroutine in another thread.
    return front_of(connection)


TheFront = Annotated[Front, Depends(_the_front)]
TheCaller = Annotated[Caller, Depends(caller_of)]


IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", description="Requests with the same key are the same request.")
]
User = Annotated[str | None, Query(description="The user's id; the caller if omitted.")]
STREAM: dict[str, Any] = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
"""The OpenAPI entry of a response that may be a stream."""
