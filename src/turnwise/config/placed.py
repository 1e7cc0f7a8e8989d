"""An agent of somebody's code at the place, and with the card, that a configuration file gives it."""

from collections.abc import AsyncIterator, Sequence

from turnwise.facts.cards import AgentCard
from turnwise.facts.events import Event
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext


class PlacedAgent:
    """Runs as the agent it wraps, whose own children stay below it, before those that are added."""

    def __init__(self, agent: Agent, card: AgentCard, children: Sequence[Agent]) -> None:
        self.card = card
        self.children: Sequence[Agent] = (*agent.children, *children)
        self._agent = agent

    def __repr__(self) -> str:
        return f"PlacedAgent({self._agent!r})"

    def run(self, context: AgentContext) -> AsyncIterator[Event]:
        return self._agent.run(context)
