"""An agent of somebody's code at the place, and with the card, that a configuration file gives it."""

import inspect
from collections.abc import AsyncIterator, Sequence

from turnwise.facts.cards import AgentCard
from turnwise.facts.events import Event
from turnwise.facts.tree import AgentTree
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext


class PlacedAgent:
    """Runs as `agent`, which it wraps, whose own children stay below it, before those that are added."""

    def __init__(self, agent: Agent, card: AgentCard, children: Sequence[Agent]) -> None:
        self.card = card
        self.children: Sequence[Agent] = (*agent.children, *children)
        self.agent = agent

    def __repr__(self) -> str:
        return f"PlacedAgent({self.agent!r})"

    def run(self, context: AgentContext) -> AsyncIterator[Event]:
        return self.agent.run(context)

    @property
    def delegates_to(self) -> Sequence[str] | None:
        """Whom the agent runs in its own turn; None when it does not say."""
        named: Sequence[str] | None = getattr(self.agent, "delegates_to", None)
        return named

    def check(self, tree: AgentTree) -> None:
        """Raises what the agent finds wrong with its tree, if it looks."""
        check = getattr(self.agent, "check", None)
        if check is not None:
            check(tree)

    async def close(self) -> None:
        """Gives up what the agent holds, if it holds anything."""
        close = getattr(self.agent, "close", None)
        if inspect.iscoroutinefunction(close):
            await close()
