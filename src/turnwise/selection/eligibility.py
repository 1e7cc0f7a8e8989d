"""Eligibility: filters the agents a caller may reach, before any scoring (behaviours C19, C20). Pure."""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from turnwise.facts.selections import Exclusion
from turnwise.facts.tree import AgentTree

UNREACHABLE = frozenset({"disabled", "role"})
"""Exclusion rules that nothing overrides, not even a tool result or an open question."""


_MOST_KNOWN = 256


class NameSet(tuple[str, ...]):
    """Ordered agent names with constant-time `in`."""

    @cached_property
    def _set(self) -> frozenset[str]:
        return frozenset(self)

    def __contains__(self, name: object) -> bool:
        return name in self._set


@dataclass(frozen=True)
class Eligible:
    """The eligible agents, in the tree's order, and the excluded ones with their rules."""

    names: tuple[str, ...]
    excluded: tuple[Exclusion, ...]
    continuing: tuple[str, ...]
    """`names` plus the agents that only `routable: false` excludes.

    Resuming a conversation after a transfer is not routing, so these agents may be resumed and may be the default.
    """

    @cached_property
    def rules(self) -> Mapping[str, str]:
        """Maps each excluded agent to the rule that excludes it."""
        return {exclusion.agent: exclusion.rule for exclusion in self.excluded}

    def including(self, names: tuple[str, ...], others: Sequence[str], but: frozenset[str]) -> tuple[str, ...]:
        """Returns `names` plus those of `others` that are excluded, but not by a rule in `but`."""
        more = [name for name in dict.fromkeys(others) if name not in names and self.rules.get(name, "unknown") not in but]
        known = [name for name in more if name in self.rules]
        return NameSet((*names, *known)) if known else names


class EligibleAgents:
    """The eligible agents of one tree, cached: they depend on the caller's roles and what is left out, not on the message.

    Args:
        tree: The agents.
        before: The eligible agents of an earlier tree. They are shared if the same callers may reach the same agents.
    """

    def __init__(self, tree: AgentTree, before: "EligibleAgents | None" = None) -> None:
        self._tree = tree
        self._roles: frozenset[str]
        self._known: OrderedDict[object, Eligible]
        if before is not None and tree.same_access(before._tree):
            self._roles, self._known = before._roles, before._known.copy()
        else:
            self._roles, self._known = frozenset(role for card in tree for role in card.roles), OrderedDict()

    def of(
        self, roles: Collection[str], resting: frozenset[str] = frozenset(), among: tuple[str, ...] | None = None
    ) -> Eligible:
        """Returns `eligible` for a caller with these roles."""
        relevant = self._roles.intersection(roles)
        key = (relevant, resting, among)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = eligible(self._tree, roles=relevant, resting=resting, among=among)
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return found


class _Above(NamedTuple):
    """Inherited properties: for each, the nearest agent at or above this one that has it."""

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
    """Returns the agents that a caller with these roles may reach.

    The first rule that applies is recorded:

    - `disabled`: the agent or one above it is disabled.
    - `role`: the agent or one above it requires a role that the caller lacks.
    - `resting`: the agent keeps failing.
    - `inside_composite`: a composite agent above it runs it.
    - `not_routable`: its card opts out of routing. A supervisor that takes no messages may lead agents that do, so this
      rule is not inherited.

    Args:
        tree: The agents.
        roles: The caller's roles.
        resting: Agents that are paused after repeated failures.
        among: Considers only these agents, as inside a team. The last two rules then do not apply: the team runs them.
    """
    verdicts = dict(_with_exclusions(tree, frozenset(roles), resting, routed=among is None))
    considered = [card.name for card in tree if among is None or card.name in among]
    excluded = [exclusion for name in considered if (exclusion := verdicts[name])]
    return Eligible(
        names=NameSet(name for name in considered if verdicts[name] is None),
        excluded=tuple(excluded),
        continuing=NameSet(
            name for name in considered if (exclusion := verdicts[name]) is None or exclusion.rule == "not_routable"
        ),
    )


def _with_exclusions(
    tree: AgentTree, roles: frozenset[str], resting: Collection[str], *, routed: bool
) -> Iterator[tuple[str, Exclusion | None]]:
    """Yields every agent, parents before children, with its exclusion; None when it may be chosen."""
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
    """Returns the first rule that excludes the agent: disabled, role, resting, inside a composite, not routable; else None."""
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
