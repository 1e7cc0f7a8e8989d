"""What an agent is."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from turnwise.facts.cards import AgentCard
from turnwise.facts.events import Event
from turnwise.ports.context import AgentContext


class Agent(Protocol):
    """Something that can take a turn. It keeps nothing between turns: the session does.

    One that holds connections or the like may have `async def close(self) -> None` besides: it gives them up. The runner
    awaits it when it closes itself. Idempotent; a later turn opens them anew. One that names others may have
    `def check(self, tree: AgentTree) -> None`: it raises a ConfigError when they are not there, before anything runs. One that
    runs others in its own turn, wherever they stand, may have `delegates_to: Sequence[str]`, their names: a circle is refused.
    """

    @property
    def card(self) -> AgentCard:
        """All that may be known of it without running it."""
        ...

    @property
    def children(self) -> Sequence["Agent"]:
        """The agents below it, in order."""
        ...

    def run(self, context: AgentContext) -> AsyncIterator[Event]:
        """Takes one turn. Events it yields are stored before it goes on; what it raises ends the invocation `failed`."""
        ...


class MakesAgent(Protocol):
    """What can be a runner's root although it is no agent, because it makes one of itself: a task."""

    def as_agent(self) -> Agent:
        """The agent that stands for it."""
        ...
