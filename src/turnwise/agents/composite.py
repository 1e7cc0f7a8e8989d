"""Composite agents: run their children in sequence, in a loop, or in parallel (behaviour A41).

A composite keeps no progress itself. The log records which children have finished, so a resumed turn continues where it
stopped.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

from turnwise.agents.function import make_card
from turnwise.agents.members import members_of
from turnwise.facts.branch import segment_of
from turnwise.facts.cards import AgentCard, Kind
from turnwise.facts.errors import AgentDefinitionError
from turnwise.facts.events import Event
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.tools.event_loop import run_together


class Composite:
    """Base class: a card of the composite's kind and at least one child.

    Raises:
        AgentDefinitionError: There is no child, or a child is not an agent.
    """

    kind: ClassVar[Kind]

    def __init__(self, name: str, children: Sequence[Agent], *, description: str = "", **card: Any) -> None:
        self.card: AgentCard = make_card({"name": name, "description": description, "kind": self.kind, **card})
        self.children = members_of(name, children)
        if not self.children:
            raise AgentDefinitionError(f"The {self.kind} agent {name!r} has no children.", fix="Give it at least one.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.card.name!r})"


class Sequential(Composite):
    """Runs its children in order; each child sees the events of those before it. Stops early when a child transfers."""

    kind = "sequential"

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        """Delegates to the children. Yields nothing: they emit their events themselves."""
        for child in self.children:
            outcome = await context.delegate(child.card.name, segment=segment_of(child.card.name))
            if outcome.escalated:
                await context.escalate()
            if outcome.moved:
                return
        return
        yield  # makes this an async generator; only the children emit events


class Loop(Composite):
    """Runs its children in order, repeatedly, until one escalates or transfers, or `max_iterations` rounds are done."""

    kind = "loop"

    def __init__(self, name: str, children: Sequence[Agent], *, max_iterations: int = 10, **card: Any) -> None:
        super().__init__(name, children, **card)
        if max_iterations < 1:
            raise AgentDefinitionError(f"The loop {name!r} has max_iterations {max_iterations}.", fix="Use 1 or more.")
        self.max_iterations = max_iterations

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        """Delegates to the children. Yields nothing: they emit their events themselves."""
        for iteration in range(self.max_iterations):
            for child in self.children:
                outcome = await context.delegate(child.card.name, segment=f"{segment_of(child.card.name)}#{iteration}")
                if outcome.escalated or outcome.moved:
                    return
        return
        yield


class Parallel(Composite):
    """Runs its children concurrently, each on a separate branch. A child that fails cancels the others.

    A child that waits does not stop its siblings: they run to their end, then the composite waits.
    """

    kind = "parallel"

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        """Delegates to the children. Yields nothing: they emit their events themselves."""
        names = [child.card.name for child in self.children]
        outcomes = await run_together([context.delegate(name, segment=f"~{segment_of(name)}") for name in names])
        if any(outcome.escalated for outcome in outcomes):
            await context.escalate()
        return
        yield
