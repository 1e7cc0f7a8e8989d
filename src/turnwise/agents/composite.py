"""Composite agents: run their children in sequence, in a loop, or in parallel (behaviour A41), or as a team, whose members
take turns until an answer ends the task (B7).

A composite keeps no progress itself. The log records which children have finished, so a resumed turn continues where it
stopped.
"""

import inspect
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar, Literal

from turnwise.agents.function import make_card
from turnwise.agents.members import members_of
from turnwise.facts.errors import AgentDefinitionError, LimitReached
from turnwise.facts.events import Event, segment_of
from turnwise.facts.tree import AgentCard, Kind
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.ports.selector import Selector
from turnwise.tools.event_loop import run_together

_ENDS = ("untagged", "escalated")


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


class Team:
    """Members share one task. A selector picks the first member, and the next one after every answer.

    The team also ends when a member transfers or escalates, or at `limits.turns`.

    Args:
        selector: Picks the member that works next.
        lead: The member that works when the selector picks none (B1); by default the first member.
        ends: With `untagged`, an answer that names no next member goes to the user and ends the task. With `escalated`,
            the team continues until a member escalates.
        card: Other fields of AgentCard.

    Raises:
        AgentDefinitionError: The team has no members, the lead or a name in the selector's order is not a member, the
            selector is not a selector, or `ends` is unknown.
    """

    def __init__(
        self,
        name: str,
        members: Sequence[Agent],
        *,
        selector: Selector,
        lead: str | None = None,
        ends: Literal["untagged", "escalated"] = "untagged",
        **card: Any,
    ) -> None:
        self.card: AgentCard = make_card({"name": name, "kind": "team", **card})
        self.children = members_of(name, members)
        self._names = tuple(member.card.name for member in self.children)
        if not self._names:
            raise AgentDefinitionError(f"The team {name!r} has no members.", fix="Give it at least one.")
        if lead is not None and lead not in self._names:
            raise AgentDefinitionError(
                f"The lead {lead!r} of team {name!r} is not a member.", fix=f"Members: {', '.join(self._names)}."
            )
        if ends not in _ENDS:
            raise AgentDefinitionError(f"The team {name!r} cannot end {ends!r}.", fix=f"Pass one of: {', '.join(_ENDS)}.")
        _check_selector(name, selector, self._names)
        self._lead = lead or self._names[0]
        self._selector = selector
        self._ends = ends

    def __repr__(self) -> str:
        return f"Team({self.card.name!r})"

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        """Lets members answer in turn, as the selector chooses, until an answer ends the task. Raises LimitReached."""
        answer: Event | None = None
        for turn in range(context.config.limits.turns):
            verdict = await context.select(self._selector, among=self._names, answer=answer, lead=self._lead)
            speaker = verdict.agent or self._lead
            outcome = await context.delegate(speaker, segment=f"{segment_of(speaker)}#{turn}")
            answer = outcome.event
            if outcome.moved or outcome.escalated or answer is None:
                return
            if self._ends == "untagged" and outcome.next is None:
                return
        raise LimitReached("turns", f"Team {self.card.name!r} took {context.config.limits.turns} turns without an end.")
        yield


def _check_selector(team: str, selector: object, members: Sequence[str]) -> None:
    """Raises AgentDefinitionError for a selector that a team cannot use."""
    if isinstance(selector, type) or not callable(getattr(selector, "select", None)):
        raise AgentDefinitionError(
            f"The selector of team {team!r} is {_described(selector)}, which has no method `select`.",
            fix="Pass a selector such as Conversational() or Iterative(order=[…]).",
        )
    if not inspect.iscoroutinefunction(getattr(selector, "select", None)):
        raise AgentDefinitionError(
            f"The selector of team {team!r} cannot be awaited: its `select` is not `async`.", fix="Write `async def select`."
        )
    if not isinstance(getattr(selector, "name", None), str):
        raise AgentDefinitionError(f"The selector of team {team!r} has no `name`.", fix="Give it a name: a string.")
    unknown = [agent for agent in getattr(selector, "named_agents", ()) if agent not in members]
    if unknown:
        raise AgentDefinitionError(
            f"The selector of team {team!r} names {unknown[0]!r}, which is not a member.",
            fix=f"Members: {', '.join(members)}.",
        )


def _described(selector: object) -> str:
    if isinstance(selector, str):
        return f"the text {selector!r}"
    return f"the class {selector.__name__}" if isinstance(selector, type) else f"a {type(selector).__name__}"
