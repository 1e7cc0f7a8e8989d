"""The agents that serve, as one immutable set, and the swap to another set while messages are answered (behaviours F3, F4)."""

import asyncio
import inspect
import logging
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType

from turnwise.facts.errors import ConfigError, RevisionUnavailable, StoreError, TurnwiseError
from turnwise.facts.selections import Selection
from turnwise.facts.tree import AgentTree
from turnwise.ports.agent import Agent
from turnwise.runner.record.events import error_text
from turnwise.selection.cascade import Cascade

CLOSE_SECONDS = 30.0
"""The timeout for closing one agent."""
CODE_REVISION = 0
"""The revision of agents that come from code and configuration only."""

log = logging.getLogger("turnwise.runner")


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


def _is_closable(agent: Agent) -> bool:
    return inspect.iscoroutinefunction(getattr(agent, "close", None))


async def _close(agent: Agent) -> None:
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await agent.close()  # type: ignore[attr-defined]
    except Exception as error:
        log.error("Agent %r was not closed: %s: %s", agent.card.name, type(error).__name__, error_text(error))
