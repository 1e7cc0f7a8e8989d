"""The agents that a caller reaches."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from turnwise.access.rights import roles_of
from turnwise.facts.callers import Caller
from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import NothingHere, RequestInvalid
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.session_scope import SessionScope
from turnwise.runner import Runner
from turnwise.selection.eligibility import eligible


class VisibleAgent(NamedTuple):
    """An agent, and those of its children that the caller may know of."""

    card: AgentCard
    children: tuple[str, ...]


class Agents:
    """What callers may know of agents: those whom they do not reach are as if they did not exist. Forbidden."""

    def __init__(self, runner: Runner, whose: SessionScope) -> None:
        self._runner, self._whose = runner, whose

    def page(self, caller: Caller, *, after: str | None, limit: int) -> tuple[Sequence[VisibleAgent], str | None]:
        """A page in the tree's order, and after whom there are more; None at the end. RequestInvalid for an unknown `after`."""
        names = list(self._known(caller))
        if after is not None and after not in names:
            raise RequestInvalid("There is no such agent.", fix="Pass a page's `next` as it is.", where=("query", "after"))
        begin = 0 if after is None else names.index(after) + 1
        page = [self._with_children(caller, name) for name in names[begin : begin + limit]]
        return page, names[begin + limit - 1] if len(names) > begin + limit else None

    def get(self, caller: Caller, name: str) -> VisibleAgent:
        """NothingHere for one that there is not, or that the caller does not reach."""
        if name not in self._known(caller):
            raise NothingHere(f"There is no agent {name[:64]!r}.", fix="List the agents.")
        return self._with_children(caller, name)

    def _known(self, caller: Caller) -> dict[str, None]:
        self._whose.require(caller, "agents:read")
        view = Redactor(caller, self._runner.tree)
        return {card.name: None for card in self._runner.tree if view.reaches(card.name)}

    def _with_children(self, caller: Caller, name: str) -> VisibleAgent:
        view = Redactor(caller, self._runner.tree)
        return VisibleAgent(self._runner.tree.card(name), tuple(filter(view.reaches, self._runner.tree.children(name))))


DIRECT = "direct"
"""The selector that lets a caller choose (behaviour C1); a policy without it decides for every message."""


class Addressees:
    """The agents that answer a caller who names them; any other is as if it did not exist."""

    def __init__(self, runner: Runner, whose: SessionScope) -> None:
        self._runner, self._whose = runner, whose

    def names(self, caller: Caller) -> Sequence[str]:
        """Their names in the tree's order. Forbidden."""
        self._whose.require(caller, "agents:read")
        return tuple(self._names(caller))

    def has(self, caller: Caller, name: str) -> bool:
        """Whether that is one of them, for a message."""
        return name in self._names(caller)

    def _names(self, caller: Caller) -> Collection[str]:
        if not any(stage.selector == DIRECT for stage in self._runner.cascade.spec.stages):
            return ()
        return eligible(self._runner.tree, roles=roles_of(caller)).names
