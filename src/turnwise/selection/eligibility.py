"""Who may be chosen at all, before anybody is scored (behaviours C19, C20). Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from turnwise.facts.selections import Exclusion
from turnwise.facts.tree import AgentTree

UNREACHABLE = frozenset({"disabled", "role"})
"""The rules that nothing overrides: not a tool result, not an open question."""


class NameSet(tuple[str, ...]):
    """Agents' names in order; `in` does not search."""

    @cached_property
    def _set(self) -> frozenset[str]:
        return frozenset(self)

    def __contains__(self, name: object) -> bool:
        return name in self._set


@dataclass(frozen=True)
class Eligible:
    """Who may be chosen, in the tree's order, and who may not and by which rule.

    continuing: `names`, and those whom only their `routable: false` keeps from being routed to. Going on with a
    conversation they were given by a transfer is not routing, so they may be resumed, and may be the default.
    """

    names: tuple[str, ...]
    excluded: tuple[Exclusion, ...]
    continuing: tuple[str, ...]

    @cached_property
    def rules(self) -> Mapping[str, str]:
        """The rule that excludes each excluded agent."""
        return {exclusion.agent: exclusion.rule for exclusion in self.excluded}


class _Above(NamedTuple):
    """What an agent inherits: the nearest agent above it (or itself) that has the property."""

    disabled: str | None = None
    closed: str | None = None
    composite: str | None = None


def eligible(
    tree: AgentTree,
    *,
    roles: Collection[str] = (),
    resting: Collection[str] = frozenset(),
    among: Collection[str] | None = None,
) -> Eligible:
    """Who may be chosen for a caller with these roles.

    The rules, the first that holds is recorded: `disabled` (it or one above it), `role` (it or one above it is open only to
    roles the caller lacks: who may not enter a department reaches nobody in it), `resting` (it keeps failing),
    `inside_composite` (a composite above it runs it), `not_routable` (its card says so; this one is not inherited, since a
    supervisor that takes no messages itself may lead many who do). With `among`, as when a team asks, only those are
    considered, and the last two rules do not apply to them: their team runs them.
    """
    verdicts = dict(_judged(tree, frozenset(roles), resting, routed=among is None))
    considered = [card.name for card in tree if among is None or card.name in among]
    excluded = [exclusion for name in considered if (exclusion := verdicts[name])]
    return Eligible(
        names=NameSet(name for name in considered if verdicts[name] is None),
        excluded=tuple(excluded),
        continuing=NameSet(
            name for name in considered if (exclusion := verdicts[name]) is None or exclusion.rule == "not_routable"
        ),
    )


def _judged(
    tree: AgentTree, roles: frozenset[str], resting: Collection[str], *, routed: bool
) -> Iterator[tuple[str, Exclusion | None]]:
    pending = [(tree.root, _Above())]
    while pending:
        name, above = pending.pop()
        card = tree.card(name)
        here = _Above(
            disabled=above.disabled or (None if card.enabled else name),
            closed=above.closed or (name if card.roles and roles.isdisjoint(card.roles) else None),
            composite=above.composite,
        )
        yield name, _exclusion(tree, name, here, resting, routed=routed)
        below = here._replace(composite=name) if card.is_composite else here
        pending += [(child, below) for child in tree.children(name)]


def _exclusion(tree: AgentTree, name: str, here: _Above, resting: Collection[str], *, routed: bool) -> Exclusion | None:
    card = tree.card(name)
    if here.disabled is not None:
        detail = "it is disabled" if here.disabled == name else f"{here.disabled} above it is disabled"
        return Exclusion(agent=name, rule="disabled", detail=detail)
    if here.closed is not None:
        who = "it" if here.closed == name else f"{here.closed} above it"
        return Exclusion(agent=name, rule="role", detail=f"{who} is open to {', '.join(tree.card(here.closed).roles)} only")
    if name in resting:
        return Exclusion(agent=name, rule="resting", detail="it kept failing and rests a while")
    if routed and here.composite is not None:
        return Exclusion(agent=name, rule="inside_composite", detail=f"{here.composite} runs it")
    if routed and not card.routable:
        return Exclusion(agent=name, rule="not_routable", detail="its card says that it takes no messages by routing")
    return None
