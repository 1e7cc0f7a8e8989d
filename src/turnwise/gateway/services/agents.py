"""Lookup of the agents that a caller may see, and of those that a caller may address directly."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from turnwise.access.rights import roles_of
from turnwise.facts.errors import NothingHere, RequestInvalid
from turnwise.facts.tree import AgentCard
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.session_admission import SessionScope
from turnwise.runner import Runner
from turnwise.selection.eligibility import eligible


class VisibleAgent(NamedTuple):
    """An agent's card, with the children that the caller may see."""

    card: AgentCard
    children: tuple[str, ...]


class Agents:
    """Lists and shows the agents that a caller may see. An agent that the caller may not use looks like a missing one.

    All methods raise Forbidden without the permission `agents:read`.
    """

    def __init__(self, runner: Runner, scope: SessionScope) -> None:
        self._runner, self._scope = runner, scope

    def page(self, *, after: str | None, limit: int) -> tuple[Sequence[VisibleAgent], str | None]:
        """Returns one page of agents in the tree's order.

        Args:
            after: The last name of the previous page; None for the first page.
            limit: The maximum number of agents.

        Returns:
            The agents, and the name to pass as the next `after`; None if this is the last page.

        Raises:
            RequestInvalid: `after` is not the name of a visible agent.
        """
        names = list(self._visible_names())
        if after is not None and after not in names:
            raise RequestInvalid("There is no such agent.", fix="Pass a page's `next` unchanged.", where=("query", "after"))
        begin = 0 if after is None else names.index(after) + 1
        page = [self._with_children(name) for name in names[begin : begin + limit]]
        return page, names[begin + limit - 1] if len(names) > begin + limit else None

    def get(self, name: str) -> VisibleAgent:
        """Returns the agent with this name.

        Raises:
            NothingHere: There is no such agent, or the caller may not use it.
        """
        if name not in self._visible_names():
            raise NothingHere(f"There is no agent {name[:64]!r}.", fix="List the agents.")
        return self._with_children(name)

    def _visible_names(self) -> dict[str, None]:
        self._scope.require("agents:read")
        view = Redactor(self._scope.caller, self._runner.tree)
        return {card.name: None for card in self._runner.tree if view.reaches(card.name)}

    def _with_children(self, name: str) -> VisibleAgent:
        view = Redactor(self._scope.caller, self._runner.tree)
        return VisibleAgent(self._runner.tree.card(name), tuple(filter(view.reaches, self._runner.tree.children(name))))


DIRECT = "direct"
"""The selector that lets a caller name an agent (behaviour C1). Without it in the policy, naming an agent has no effect."""


class Addressees:
    """The agents that a caller may address by name, past the selectors."""

    def __init__(self, runner: Runner, scope: SessionScope) -> None:
        self._runner, self._scope = runner, scope

    def names(self) -> Sequence[str]:
        """Returns the names in the tree's order. Raises Forbidden without the permission `agents:read`."""
        self._scope.require("agents:read")
        return tuple(self._names())

    def has(self, name: str) -> bool:
        """Returns whether the caller may address a message to this agent."""
        return name in self._names()

    def _names(self) -> Collection[str]:
        if not any(stage.selector == DIRECT for stage in self._runner.cascade.spec.stages):
            return ()
        return eligible(self._runner.tree, roles=roles_of(self._scope.caller)).names
