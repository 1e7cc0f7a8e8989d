"""Agents that run others: in order, in a loop, or side by side (behaviour A41).

A composite does not hold its place itself: the log records which of its children have finished, so that a turn that is
taken up again after a wait goes on where it stopped.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

from turnwise.agents.concurrency import run_together
from turnwise.agents.function import make_card
from turnwise.agents.members import members_of
from turnwise.facts.cards import AgentCard, Kind
from turnwise.facts.errors import AgentDefinitionError
from turnwise.facts.events import Event, segment_of
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext


class Composite:
    """What the three have in common: a card of their kind, and at least one child."""

    kind: ClassVar[Kind]

    def __init__(self, name: str, children: Sequence[Agent], *, description: str = "", **card: Any) -> None:
        self.card: AgentCard = make_card({"name": name, "description": description, "kind": self.kind, **card})
        self.children = members_of(name, children)
        if not self.children:
            raise AgentDefinitionError(f"The {self.kind} agent {name!r} has no children.", fix="Give it at least one.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.card.name!r})"


class Sequential(Composite):
    """Runs its children in order, each seeing what those before it said. Ends early when one hands the floor on."""

    kind = "sequential"

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        for child in self.children:
            outcome = await context.delegate(child.card.name, segment=segment_of(child.card.name))
            if outcome.escalated:
                await context.escalate()
            if outcome.moved:
                return
        return
        yield  # an async generator that yields nothing itself: its children speak


class Loop(Composite):
    """Runs its children in order, again and again, until one escalates or `max_iterations` rounds are done."""

    kind = "loop"

    def __init__(self, name: str, children: Sequence[Agent], *, max_iterations: int = 10, **card: Any) -> None:
        super().__init__(name, children, **card)
        if max_iterations < 1:
            raise AgentDefinitionError(f"The loop {name!r} has max_iterations {max_iterations}.", fix="Use 1 or more.")
        self.max_iterations = max_iterations

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        for iteration in range(self.max_iterations):
            for child in self.children:
                outcome = await context.delegate(child.card.name, segment=f"{segment_of(child.card.name)}#{iteration}")
                if outcome.escalated or outcome.moved:
                    return
        return
        yield


class Parallel(Composite):
    """Runs its children side by side, each on a branch of its own; one that fails cancels the rest.

    A child that waits does not stop its siblings: they run to their end, then the whole waits.
    """

    kind = "parallel"

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        names = [child.card.name for child in self.children]
        outcomes = await run_together([context.delegate(name, segment=f"~{segment_of(name)}") for name in names])
        if any(outcome.escalated for outcome in outcomes):
            await context.escalate()
        return
        yield
