"""The gateway's services over a runner, without a server."""

import asyncio
from collections.abc import Callable

from turnwise import Runner
from turnwise.access.quotas import Quotas
from turnwise.facts.callers import Caller
from turnwise.facts.gateway import CallerLimits
from turnwise.facts.ids import Issuer
from turnwise.gateway.services import Services, SharedState

Bind = Callable[..., Services]


def shared_state(runner: Runner, issuer: Issuer | None = None) -> SharedState:
    """Returns what the requests of an app share."""
    return SharedState(runner, Quotas(runner.app, CallerLimits()), asyncio.Event(), issuer)


def binding(runner: Runner, issuer: Issuer | None = None) -> Bind:
    """Returns a function that binds the services of the runner to a caller, and to the user that its request names."""
    state = shared_state(runner, issuer)

    def bind(caller: Caller, named: str | None = None) -> Services:
        return Services(state, caller, named)

    return bind
