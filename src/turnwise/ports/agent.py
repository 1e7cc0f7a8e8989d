"""The protocol of an agent."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from turnwise.facts.cards import AgentCard
from turnwise.facts.events import Event
from turnwise.ports.context import AgentContext


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
