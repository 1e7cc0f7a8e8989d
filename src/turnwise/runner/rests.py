"""Lets an agent rest when its surroundings fail for several users, and tries it again with one message (behaviour C20)."""

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final

from turnwise.facts.errors import AgentTimeout, ModelUnavailable, StoreError
from turnwise.facts.selections import Selection
from turnwise.ports.rests import Rest, Rests, RestStore

REST_SECONDS = 30.0
"""The length of an agent's first rest."""
USERS = 3
"""The number of users with failed messages after which an agent rests."""
_TRIES = 5
_SERVER_ERRORS: Final = range(500, 600)
# Classes of HTTP libraries that are not installed everywhere.
_TRANSPORT_ERRORS = frozenset({"TransportError", "ClientConnectionError", "ConnectError", "ServerDisconnectedError"})

log = logging.getLogger("turnwise.runner")


def is_outage(error: BaseException) -> bool:
    """Returns whether the error comes from the agent's surroundings: a timeout, a refused connection, a server error (5xx).

    The agent's own exceptions do not count, even if they are many.
    """
    return any(_is_outage(each) for each in _chain(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yields the error and the errors that caused it, each once."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _is_outage(error: BaseException) -> bool:
    """Returns whether this one error, without its causes, says that a service cannot be reached or failed."""
    if isinstance(error, (AgentTimeout, ModelUnavailable, TimeoutError, ConnectionError)):
        return True
    if any(kind.__name__ in _TRANSPORT_ERRORS for kind in type(error).__mro__):
        return True
    status = getattr(getattr(error, "response", error), "status_code", None)
    return isinstance(status, int) and status in _SERVER_ERRORS


class AgentRests:
    """The rests of an app's agents, as this process knows them. Shared with other processes where the store can.

    Decisions read what was read last. Problems of the store are logged; they never fail an answer.

    Args:
        store: The app's session store.
        app: The app's name.
        now: Returns the time.
        seconds: The length of the first rest; 0 = no agent rests.
    """

    def __init__(self, store: object, app: str, now: Callable[[], datetime], *, seconds: float = REST_SECONDS) -> None:
        self._store: Rests = store.rests if isinstance(store, RestStore) else _LocalRests()
        self._app, self._now, self._seconds = app, now, seconds
        self._known: Mapping[str, Rest] = {}

    async def refresh(self) -> None:
        """Reads the rests that other processes changed."""
        if self._seconds:
            try:
                await self._read()
            except StoreError as problem:
                log.debug("The rests of agents cannot be read: %s", problem)

    def resting(self) -> Mapping[str, Rest]:
        """Returns the agents that no message may go to now."""
        if not self._known:
            return {}
        now = self._now()
        return {name: rest for name, rest in self._known.items() if rest.excludes(now)}

    async def try_probe(self, agent: str) -> bool | None:
        """Claims the probe of an agent after its rest.

        Returns:
            True if the next message of this process is the probe, False if another process has it, None if the agent
            needs none.
        """
        rest = self._known.get(agent)
        if rest is None or not rest.is_due(self._now()):
            return None
        try:
            stored = await self._store.replace(self._app, rest.probed(self._now()))
            if stored is None:
                await self._read()
                return False
        except StoreError as problem:
            log.warning("The probe of agent %r could not be claimed: %s", agent, problem)
            return None
        self._keep(stored)
        return True

    async def failed(self, agent: str, user: str, error: BaseException) -> None:
        """Counts a failure of an agent, if its surroundings caused it."""
        if not self._seconds or not is_outage(error):
            return
        digest = hashlib.blake2b(user.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

        def change(rest: Rest) -> Rest:
            return rest.after_outage(digest, self._now(), seconds=self._seconds, users=USERS)

        rest = await self._change(agent, change)
        if rest is not None and rest.excludes(self._now()) and not rest.outages:
            log.warning("Agent %r rests until %s: its surroundings fail.", agent, f"{rest.until:%H:%M:%S}")

    async def succeeded(self, agent: str) -> None:
        """Ends the rest of an agent that answered. Free of cost for agents without failures."""
        rest = self._known.get(agent)
        if rest is not None and not rest.is_clear and not (rest.until is not None and self._now() < rest.until):
            await self._change(agent, Rest.after_success)

    async def _change(self, agent: str, change: Callable[[Rest], Rest]) -> Rest | None:
        """Applies a change to an agent's stored rest, and again when another process changed it meanwhile.

        Returns the stored rest; None if `change` changes nothing or the store failed.
        """
        try:
            for _ in range(_TRIES):
                before = self._known.get(agent, Rest(agent=agent))
                after = change(before)
                if after is before:
                    return None
                stored = await self._store.replace(self._app, after)
                if stored is not None:
                    self._keep(stored)
                    return stored
                await self._read()
        except StoreError as problem:
            log.warning("The rest of agent %r could not be stored: %s", agent, problem)
        return None

    def _keep(self, rest: Rest) -> None:
        self._known = {**self._known, rest.agent: rest}

    async def _read(self) -> None:
        self._known = {rest.agent: rest for rest in await self._store.all(self._app)}


class _LocalRests:
    """Rests of this process, for stores that keep none."""

    def __init__(self) -> None:
        self._rests: dict[str, Rest] = {}

    async def all(self, app: str) -> list[Rest]:
        return list(self._rests.values())

    async def replace(self, app: str, rest: Rest) -> Rest | None:
        stored = self._rests.get(rest.agent)
        if rest.version != (stored.version if stored else 0):
            return None
        self._rests[rest.agent] = new = rest.replace(version=rest.version + 1)
        return new


def with_ends(selection: Selection, resting: Mapping[str, Rest]) -> Selection:
    """Returns the selection in which resting agents are excluded with the end of their rest."""
    if not resting or all(each.rule != "resting" for each in selection.excluded):
        return selection
    excluded = tuple(
        each.replace(detail=_detail(resting[each.agent])) if each.rule == "resting" and each.agent in resting else each
        for each in selection.excluded
    )
    return selection.replace(excluded=excluded)


def _detail(rest: Rest) -> str:
    assert rest.until is not None
    return f"resting until {rest.until.isoformat(timespec='seconds')}, because its surroundings failed"
