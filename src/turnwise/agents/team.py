"""A team: members take turns until an answer ends the task (behaviour B7)."""

import inspect
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

from turnwise.agents.function import make_card
from turnwise.agents.members import members_of
from turnwise.facts.errors import AgentDefinitionError, LimitReached
from turnwise.facts.events import Event, segment_of
from turnwise.facts.tree import AgentCard
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.ports.selector import Selector

_ENDS = ("untagged", "escalated")


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
