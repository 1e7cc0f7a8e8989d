"""An imported agent with the card and children that a configuration file gives it."""

import inspect
from collections.abc import AsyncIterator, Sequence

from turnwise.facts.cards import AgentCard
from turnwise.facts.events import Event
from turnwise.facts.tree import AgentTree
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext


class PlacedAgent:
    """Runs as the wrapped `agent`. Its children are the agent's, followed by the added ones."""

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
        """Names of the agents that it runs within its own turn; None if the wrapped agent does not declare any."""
        named: Sequence[str] | None = getattr(self.agent, "delegates_to", None)
        return named

    def check(self, tree: AgentTree) -> None:
        """Runs the wrapped agent's check of the tree, if it has one."""
        check = getattr(self.agent, "check", None)
        if check is not None:
            check(tree)

    async def close(self) -> None:
        """Closes the wrapped agent, if it can be closed."""
        close = getattr(self.agent, "close", None)
        if inspect.iscoroutinefunction(close):
            await close()
