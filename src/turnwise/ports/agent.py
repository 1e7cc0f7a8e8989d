"""The protocol of an agent, and of an agent that does background jobs after its turn."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, runtime_checkable

from turnwise.facts.events import Actions, Event
from turnwise.facts.tree import AgentCard
from turnwise.ports.context import AgentContext
from turnwise.ports.stores import BackgroundJob


class Agent(Protocol):
    """Takes turns in a conversation. It keeps no state between turns; the session does.

    An agent may have further methods and attributes:

    - `async def close(self) -> None` releases connections and the like. The runner awaits it in its own `close`. It is
      idempotent, and a later turn reopens them.
    - `def check(self, tree: AgentTree) -> None` raises a ConfigError if agents that it refers to do not exist, before
      anything runs.
    - `delegates_to: Sequence[str]` names the agents that it runs in its own turn, anywhere in the tree. Cycles are
      refused.
    """

    @property
    def card(self) -> AgentCard:
        """The agent's properties that are known without running it."""
        ...

    @property
    def children(self) -> Sequence["Agent"]:
        """The agents below it, in order."""
        ...

    def run(self, context: AgentContext) -> AsyncIterator[Event]:
        """Takes one turn. Each yielded event is stored before the agent continues. An exception ends the invocation as
        `failed`.
        """
        ...


class MakesAgent(Protocol):
    """A root that is not an agent but can create one, such as a task."""

    def as_agent(self) -> Agent:
        """Returns the agent."""
        ...


class LogPages(Protocol):
    """The current log of a job's session, without hidden events."""

    def backwards(self, page: int = 40) -> AsyncIterator[list[Event]]:
        """Yields pages from the newest to the oldest, each oldest first, with at most limits.history_events in all."""
        ...


@runtime_checkable
class DoesJobs(Protocol):
    """An agent that does its own background jobs."""

    async def do_job(self, job: BackgroundJob, log: LogPages) -> Actions | None:
        """Does the job. It may be called again for the same job: exceptions are logged, and the job is retried a few times.

        Returns:
            Actions to record as an event of the agent, of which only `summary`, `usage` and `remembered` are kept. None records
            nothing.
        """
        ...
