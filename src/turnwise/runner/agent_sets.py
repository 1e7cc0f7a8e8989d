"""The agents that serve, as one immutable set, and the swap to another set while messages are answered (behaviours F3, F4, F7).

A committed change of the definitions is served in every process within about a second.
"""

import asyncio
import inspect
import logging
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from turnwise.facts.errors import ConfigError, EncoderError, RevisionUnavailable, StoreError, TurnwiseError
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.facts.tree import AgentTree
from turnwise.ports.agent import Agent
from turnwise.ports.signals import Signals
from turnwise.ports.stores import Lease, SessionStore
from turnwise.runner.record.events import error_text
from turnwise.selection.cascade import Cascade

CLOSE_SECONDS = 30.0
"""The timeout for closing one agent."""
CODE_REVISION = 0
"""The revision of agents that come from code and configuration only."""

log = logging.getLogger("turnwise.runner")

POLL_SECONDS = 1.0
"""The interval at which the revision is read. A signal makes it sooner."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class AgentSet:
    """Everything that a decision and a turn depend on: the agents, their tree, and the policy bound to it. Immutable."""

    agents: Mapping[str, Agent]
    tree: AgentTree
    cascade: Cascade
    revision: int = CODE_REVISION
    """The revision of the definitions; decisions record it."""
    retired: frozenset[str] = field(default=frozenset())
    """Agents that were retired on purpose. Their work is not left to other processes."""
    policies: Mapping[str, Cascade] = field(default_factory=dict)
    """The other policies that decide: those of an experiment's arms, and the shadow's, by name."""

    def policy(self, name: str | None) -> Cascade:
        """Returns the policy of that name; the served one for None, and for a name that this set does not have."""
        return self.cascade if name is None else self.policies.get(name, self.cascade)

    def stamped(self, selection: Selection) -> Selection:
        """Returns the selection with this set's revision."""
        return selection if self.revision == CODE_REVISION else selection.replace_valid(revision=self.revision)

    def lacks(self, agent: str) -> bool:
        """Returns whether another process may know the agent although this set does not."""
        return agent not in self.tree and agent not in self.retired


MakeSet = Callable[[int], Awaitable[AgentSet]]
"""Makes the set of a revision. Raises StoreError when the definitions cannot be read now."""


class AgentSets:
    """The set that serves now, and older sets that invocations still use. Safe to use from several event loops.

    A set without users that does not serve is dropped, and its agents are closed unless another set has them.

    Args:
        first: The set that serves first.
    """

    def __init__(self, first: AgentSet) -> None:
        self._current = first
        self._users: dict[AgentSet, int] = {first: 0}
        self._lock = threading.Lock()
        self._making: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()
        self._closing: set[asyncio.Task[None]] = set()
        self._listeners: list[Callable[[AgentSet], object]] = []
        self._make: MakeSet | None = None
        self._spare: AgentSet | None = None
        """The earlier set that was made last. It stays, because the next invocation often needs it too."""
        self.problem: TurnwiseError | None = None
        """Why a newer set is not served; None when the newest one serves."""

    @property
    def current(self) -> AgentSet:
        """The set that new messages are decided with."""
        return self._current

    @property
    def kept(self) -> int:
        """The number of sets in memory: the current one and those in use."""
        return len(self._users)

    def make_with(self, make: MakeSet) -> None:
        """Sets how sets of earlier revisions are made."""
        self._make = make

    def on_swap(self, listener: Callable[[AgentSet], object]) -> Callable[[], None]:
        """Registers a callback that gets each new set right after it serves. Returns a function that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def swap(self, new: AgentSet) -> None:
        """Serves the set from now on. Running invocations keep theirs. Call it inside an event loop.

        Raises:
            ConfigError: The set has another root: the root is fixed while an app runs.
        """
        if new.tree.root != self._current.tree.root:
            raise ConfigError(
                f"The new agents have the root {new.tree.root!r} instead of {self._current.tree.root!r}.",
                fix="Keep the root, or restart the processes.",
            )
        with self._lock:
            old, self._current = self._current, new
            self._users.setdefault(new, 0)
            self.problem = None
        for listener in [*self._listeners]:
            listener(new)
        self._drop_unused(old)

    def refuse(self, problem: TurnwiseError) -> None:
        """Records why a newer set is not served. The current one goes on."""
        if self.problem is None or str(self.problem) != str(problem):
            log.error("New agents are not served, the old ones go on: %s", problem)
        self.problem = problem

    def hold(self) -> "Hold":
        """Returns a hold on the current set."""
        return Hold(self)

    async def at(self, revision: int) -> AgentSet:
        """Returns the set of a revision: one in memory, or one made again. Without a maker, the current one.

        Raises:
            RevisionUnavailable: The set cannot be made any more.
            StoreError: The definitions cannot be read now.
        """
        found = self._in_memory(revision)
        if found is not None:
            return found
        if self._make is None:
            return self._current
        async with self._making.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            found = self._in_memory(revision)
            return found or await self._make_earlier(self._make, revision)

    async def _make_earlier(self, make: MakeSet, revision: int) -> AgentSet:
        """Makes the set of an earlier revision and keeps it in memory as the spare one. Raises as `at`."""
        try:
            made = await make(revision)
        except StoreError:
            raise
        except Exception as error:
            raise RevisionUnavailable(
                f"The agents of revision {revision} cannot be made any more: {error_text(error) or type(error).__name__}",
                fix="Send the message again.",
            ) from error
        with self._lock:
            self._users.setdefault(made, 0)
            spare, self._spare = self._spare, made
        if spare is not None:
            self._drop_unused(spare)
        return made

    def _in_memory(self, revision: int) -> AgentSet | None:
        with self._lock:
            known = (self._current, *self._users)
            return next((each for each in known if each.revision == revision), None)

    async def close(self) -> None:
        """Closes the current set's policy and agents, and waits for agents that are being closed in this event loop."""
        here = [task for task in self._closing if task.get_loop() is asyncio.get_running_loop()]
        await asyncio.gather(*here, return_exceptions=True)
        with self._lock:
            agents = {id(agent): agent for each in self._users for agent in each.agents.values()}
        for cascade in (self._current.cascade, *self._current.policies.values()):
            cascade.close()
        await close_agents(agents.values())

    def _enter(self, agent_set: AgentSet) -> None:
        with self._lock:
            self._users[agent_set] = self._users.get(agent_set, 0) + 1

    def _enter_current(self) -> AgentSet:
        with self._lock:
            self._users[self._current] += 1
            return self._current

    def _leave(self, agent_set: AgentSet) -> None:
        with self._lock:
            self._users[agent_set] -= 1
        self._drop_unused(agent_set)

    def _drop_unused(self, agent_set: AgentSet) -> None:
        """Drops the set if no invocation uses it. Closes its agents that no other set has, in the background."""
        with self._lock:
            if agent_set in (self._current, self._spare) or self._users.get(agent_set, 1):
                return
            del self._users[agent_set]
            kept = {id(agent) for each in self._users for agent in each.agents.values()}
        left = [agent for agent in agent_set.agents.values() if id(agent) not in kept and _is_closable(agent)]
        if left:
            task = asyncio.get_running_loop().create_task(close_agents(left))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


class Hold:
    """Keeps a set in memory for one invocation. A context manager.

    Attributes:
        agent_set: The set; at first the one that served when the hold was made.
    """

    def __init__(self, sets: AgentSets) -> None:
        self._sets = sets
        self.agent_set = sets.current

    def __enter__(self) -> "Hold":
        self.agent_set = self._sets._enter_current()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._sets._leave(self.agent_set)

    async def switch(self, revision: int) -> None:
        """Holds the set of that revision instead. Raises as `AgentSets.at`."""
        wanted = await self._sets.at(revision)
        if wanted is not self.agent_set:
            self._sets._enter(wanted)
            before, self.agent_set = self.agent_set, wanted
            self._sets._leave(before)


async def close_agents(agents: Iterable[Agent]) -> None:
    """Awaits `close` of every agent that has it, concurrently. Logs exceptions and timeouts."""
    await asyncio.gather(*(_close(agent) for agent in agents if _is_closable(agent)))


class Introduction:
    """Stores the names of the agents that serve, beside the heartbeat of this process, and again when they change.

    Args:
        store: The store of the sessions.
        sets: The agents of this process.
        lease: The holder that answers with them.
        app: The app.
    """

    def __init__(self, store: SessionStore, sets: AgentSets, lease: Lease, app: str) -> None:
        self._store, self._sets, self._lease, self._app = store, sets, lease, app
        self._told: AgentSet | None = None

    async def refresh(self) -> None:
        """Stores the names, unless they are stored. Raises the store's errors."""
        current = self._sets.current
        if current is self._told:
            return
        await self._store.leases.introduce(self._lease, self._app, frozenset(card.name for card in current.tree))
        self._told = current


class SetSource(Protocol):
    """Makes the sets of the definitions' revisions."""

    async def revision(self) -> int:
        """Returns the newest revision; 0 = there are no definitions. Raises StoreError."""
        ...

    async def make(self, revision: int | None = None) -> AgentSet:
        """Returns the set of a revision; None = the newest one. Raises StoreError; other errors if it does not fit together."""
        ...

    async def last_known(self) -> AgentSet | None:
        """Returns the set that this machine served last, without the store; None = it kept none."""
        ...

    async def keep(self) -> None:
        """Keeps the set that `make` returned last, for `last_known`. Does not raise."""
        ...


class RevisionWatch:
    """Serves the newest revision, as long as it runs.

    A set that does not fit together is never served: the earlier one goes on, and `AgentSets.problem` tells why.

    Args:
        sets: Gets the new sets.
        source: Makes them.
        app: The app's name.
        signals: Wakes the watch in other processes, where the store can.
        seconds: The interval at which the revision is read.
    """

    def __init__(
        self, sets: AgentSets, source: SetSource, app: str, signals: Signals, *, seconds: float = POLL_SECONDS
    ) -> None:
        self._sets, self._source, self._signals, self._seconds = sets, source, signals, seconds
        self._key = SessionKey(app, "", "definitions")
        self._seen: int | None = None
        self._lock = asyncio.Lock()
        self._is_away = False
        self.is_stale = False
        """True while the last known set serves because the store could not be read at the start."""
        sets.make_with(source.make)

    def announce(self) -> None:
        """Tells all processes that a new revision was stored."""
        self._signals.changed(self._key)

    async def start(self) -> None:
        """Serves the newest revision. Without the store, the set that this machine served last.

        Definitions that do not fit together are not served; see `AgentSets.problem`.
        """
        try:
            await self.look()
        except StoreError as problem:
            await self._serve_last_known(problem)

    async def forever(self) -> None:
        """Serves each new revision, until it is cancelled. Problems of the store pass; the first of a series is logged."""
        warming = asyncio.create_task(self._warm())
        try:
            await self._follow()
        finally:
            warming.cancel()

    async def _follow(self) -> None:
        with self._signals.watch(self._key) as watch:
            while True:
                try:
                    await self.look()
                    self._is_away = False
                except StoreError as problem:
                    if not self._is_away:
                        log.warning("The revision of the definitions cannot be read: %s", problem)
                    self._is_away = True
                except Exception:
                    log.exception("The definitions cannot be followed.")
                await watch.next(self._seconds)

    async def _warm(self) -> None:
        """Loads what new agents need, so that the first of them do not wait for it."""
        try:
            await self._sets.current.cascade.warm()
            await self._sets.current.cascade.warm_spare()
        except TurnwiseError as problem:
            log.warning("The agents' texts cannot be compared yet: %s", problem)
        except Exception:
            log.exception("The agents' texts cannot be compared yet.")

    async def look(self) -> None:
        """Reads the revision, and serves it if it is new. Raises StoreError."""
        async with self._lock:
            revision = await self._source.revision()
            if revision != self._seen:
                await self._serve(revision)
            self.is_stale = False

    async def _serve(self, revision: int) -> None:
        """Makes the newest set and serves it. Refuses a set that cannot be made; `AgentSets.problem` then has the reason."""
        if revision == self._sets.current.revision:
            self._seen = revision
            return
        try:
            new = await self._source.make()
            await new.cascade.warm()
            self._sets.swap(new)
        except StoreError:
            raise
        except EncoderError as problem:
            self._sets.refuse(problem)  # tried again: an encoder's service may come back
            return
        except TurnwiseError as problem:
            self._sets.refuse(problem)
            self._seen = revision
            return
        except Exception as error:
            log.exception("The agents of revision %d cannot be made.", revision)
            self._sets.refuse(ConfigError(f"The agents of revision {revision} cannot be made: {type(error).__name__}."))
            self._seen = revision
            return
        self._seen = new.revision
        log.info("Revision %d of the definitions serves: %d agents.", new.revision, len(new.tree))
        await self._source.keep()

    async def _serve_last_known(self, problem: StoreError) -> None:
        """Serves the set that this machine kept, since the store failed. Logs which set serves."""
        known = None
        try:
            known = await self._source.last_known()
            if known is not None:
                self._sets.swap(known)
        except TurnwiseError as error:
            known = None
            log.error("The definitions that this machine served last cannot be used: %s", error)
        self.is_stale = True
        served = f"revision {known.revision}, which it served last" if known is not None else "code and configuration only"
        log.error("The definitions cannot be read, so this process serves %s: %s", served, problem)


def _is_closable(agent: Agent) -> bool:
    return inspect.iscoroutinefunction(getattr(agent, "close", None))


async def _close(agent: Agent) -> None:
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await agent.close()  # type: ignore[attr-defined]
    except Exception as error:
        log.error("Agent %r was not closed: %s: %s", agent.card.name, type(error).__name__, error_text(error))
