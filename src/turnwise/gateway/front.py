"""`Front`: the runner, configuration and services that all routes use, their FastAPI dependencies, and the readiness check."""

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Header, Query
from starlette.requests import HTTPConnection

from turnwise.access.authenticator import Authenticator
from turnwise.access.quotas import Quotas
from turnwise.config.definition_editor import DefinitionEditor
from turnwise.facts.callers import Caller
from turnwise.facts.errors import Closing, NotReady, TurnwiseError
from turnwise.facts.gateway import GatewayConfig
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services import Services, SharedState
from turnwise.runner import Runner
from turnwise.telemetry.metrics import Metrics

log = logging.getLogger("turnwise.gateway")


class Front(NamedTuple):
    """One app with its configuration and what its requests share."""

    runner: Runner
    config: GatewayConfig
    authenticator: Authenticator
    quotas: Quotas
    state: SharedState
    """State and services that all requests of the app share."""
    health: "HealthCheck"
    closing: asyncio.Event
    """Set when this process accepts no more messages."""
    ready: asyncio.Event
    """Set by the server when the policy is prepared."""
    metrics: Metrics | None = None
    """The Prometheus metrics; None if they are off."""
    traced: bool = False
    """Whether requests continue the traces that they name."""

    def services(self, caller: Caller, named: str | None = None) -> Services:
        """Returns the services for a caller, and for the user that the request names; None for the caller."""
        return Services(self.state, caller, named)


def front(
    runner: Runner,
    config: GatewayConfig,
    authenticator: Authenticator,
    quotas: Quotas,
    metrics: Metrics | None = None,
    *,
    traced: bool = False,
    editor: DefinitionEditor | None = None,
) -> Front:
    """Returns the front of an app. Has to be called inside an event loop."""
    closing, ready = asyncio.Event(), asyncio.Event()
    return Front(
        runner=runner,
        config=config,
        authenticator=authenticator,
        quotas=quotas,
        state=SharedState(runner, quotas, closing, editor=editor),
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


async def _the_services(connection: HTTPConnection, caller: TheCaller) -> Services:
    return front_of(connection).services(caller)


def services_of(connection: HTTPConnection) -> Services:
    """Returns the services for the authenticated caller of the request."""
    return front_of(connection).services(connection.state.caller)


TheServices = Annotated[Services, Depends(_the_services)]
"""The services for the caller, for the caller as the user."""


IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", description="Requests with the same key are the same request.")
]
User = Annotated[str | None, Query(description="The user's id; the caller if omitted.")]


async def _for_user(services: TheServices, user: User = None) -> Services:
    return services.for_user(user)


UserServices = Annotated[Services, Depends(_for_user)]
"""The services for the caller, for the user that the query names."""
STREAM: dict[str, Any] = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
"""The OpenAPI entry of a response that may be a stream."""


STORE_SECONDS = 5.0
"""Timeout of the check's write to the store."""
CACHE_SECONDS = 1.0
"""How long a success is cached. Each check commits to the store, and anyone may request one."""


class HealthCheck:
    """Checks whether this process can accept messages.

    Args:
        runner: The runner; its store is checked.
        closing: Set when the process stops accepting messages.
        ready: Set when the policy is prepared.
    """

    def __init__(self, runner: Runner, closing: asyncio.Event, ready: asyncio.Event) -> None:
        self._runner, self._closing, self._ready = runner, closing, ready
        self._running_check: asyncio.Task[None] | None = None
        self._cached_until = float("-inf")

    async def check(self) -> None:
        """Returns if this process can store messages. Concurrent callers share one write, and a success counts for a
        second.

        Raises:
            Closing: The process is shutting down.
            NotReady: The policy is not prepared, or the store is not writable.
        """
        if self._closing.is_set():
            raise Closing("This process is being stopped.", fix="Ask another one.")
        if not self._ready.is_set():
            raise NotReady("The policy is still being prepared.", fix="Ask again soon.")
        if asyncio.get_running_loop().time() < self._cached_until:
            return
        if self._running_check is None:
            self._running_check = asyncio.create_task(self._check_store())
            self._running_check.add_done_callback(self._on_checked)
        await asyncio.shield(self._running_check)

    def _on_checked(self, task: "asyncio.Task[None]") -> None:
        self._running_check = None
        if not task.cancelled() and task.exception() is None:
            self._cached_until = asyncio.get_running_loop().time() + CACHE_SECONDS

    async def _check_store(self) -> None:
        """Raises NotReady if the session store is not writable, or does not respond in time."""
        try:
            async with asyncio.timeout(STORE_SECONDS):
                await self._runner.store.maintenance.check_writable()
        except (TurnwiseError, TimeoutError) as problem:
            log.warning("The session store is not writable: %s", problem or "it did not respond in time")
            raise NotReady("The session store is not writable.", fix="Ask again soon.") from None
