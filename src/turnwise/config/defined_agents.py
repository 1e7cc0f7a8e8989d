"""Applies definitions to the agents of code and configuration: which agents there are, and which fields win."""

import inspect
import weakref
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import NamedTuple

from turnwise.agents.members import collect
from turnwise.config.agent_factory import AgentFactory, Instance
from turnwise.config.entries import PlacedAgent
from turnwise.facts.errors import AgentDefinitionError, DuplicateAgent, TreeError
from turnwise.facts.events import Event
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.ports.agent import Agent, DoesJobs
from turnwise.ports.context import AgentContext
from turnwise.ports.definitions import Definition


class AppliedDefinitions(NamedTuple):
    """The agents after definitions were applied."""

    agents: Mapping[str, Agent]
    """The agents by name, the root first."""
    tree: AgentTree
    newer: tuple[str, ...]
    """Agents with a definition that a newer release wrote. They are as in code, or missing."""

    @property
    def root(self) -> Agent:
        return self.agents[self.tree.root]


class _MadeAgent(NamedTuple):
    """The agent that one definition makes. Sets share it as long as the version serves."""

    definition: Definition
    instance: Instance | None
    """None = a newer release wrote the definition."""
    card: AgentCard | None
    """None, as `instance`."""


_MadeByName = Mapping[str, _MadeAgent]
"""What definitions make, by name."""


class _LastApplied(NamedTuple):
    """What was applied last."""

    known: _MadeByName
    applied: AppliedDefinitions
    checking: tuple[str, ...]
    """Agents that check the tree themselves."""


def _is_same(one: Definition, other: Definition) -> bool:
    """Returns whether they are one stored version. Versions never change."""
    stored = one.version > 0 and one.revision > 0
    return one is other or (stored and (one.version, one.revision) == (other.version, other.revision))


class DefinedAgent(PlacedAgent):
    """Runs as the wrapped agent, with the card of its definition and the children that the tree has.

    Several sets of agents may share a wrapped agent. It is closed when the last open set is.
    """

    def __init__(self, instance: Instance, card: AgentCard, children: Sequence[Agent], shared: "_Sharers") -> None:
        super().__init__(instance.agent, card, ())
        self.children = tuple(children)
        self.instance = instance
        self._sharers, self._is_open = shared, True
        shared.add(self)
        if isinstance(instance.agent, DoesJobs):
            self.do_job = instance.agent.do_job

    def run(self, context: AgentContext) -> AsyncIterator[Event]:
        self._is_open = True
        return self.agent.run(context)

    async def close(self) -> None:
        self._is_open = False
        if _is_closable(self.agent) and not any(each._is_open for each in self._sharers):
            await super().close()


_Sharers = weakref.WeakSet[DefinedAgent]


class DefinedAgents:
    """Applies definitions to the agents of code. The root stays: definitions change its card, not its place.

    Args:
        root: The root agent of code and configuration.
        factory: Makes the agents that are not in code.
    """

    def __init__(self, root: Agent, factory: AgentFactory) -> None:
        self.factory = factory
        self._root = root
        self._code, self._tree = collect(root)
        self._instances = {name: Instance(_unwrapped(agent)) for name, agent in self._code.items()}
        self._last: _LastApplied | None = None
        self._sharers: weakref.WeakKeyDictionary[Instance, _Sharers] = weakref.WeakKeyDictionary()

    @property
    def tree(self) -> AgentTree:
        """The tree of code and configuration alone."""
        return self._tree

    def apply(self, definitions: Iterable[Definition]) -> AppliedDefinitions:
        """Returns the agents with these definitions. Agents in code without a definition stay as they are.

        Agents that can be closed are wrapped, so that no set closes what another one uses.

        Raises:
            TurnwiseError: The definitions do not fit together, or an agent cannot be made. Names the agent.
        """
        last = self._last
        known = self._make_or_reuse(definitions, last)
        changed = None if last is None else self._changed_in_place(known, last)
        self._last = self._build_all(known) if last is None or changed is None else self._rebuild_changed(known, changed, last)
        return self._last.applied

    def tree_of(self, definitions: Iterable[Definition]) -> AgentTree:
        """Returns the tree with these definitions, without building it whole. Raises as `apply`."""
        last = self._last
        known = self._make_or_reuse(definitions, last)
        changed = None if last is None else self._changed_in_place(known, last)
        return (
            AgentTree(self._all_cards(known))
            if last is None or changed is None
            else self._tree_with_changes(known, changed, last)
        )

    def _make_or_reuse(self, definitions: Iterable[Definition], last: _LastApplied | None) -> _MadeByName:
        """Returns what the definitions make. What was applied last is shared where a version is the same."""
        before = {} if last is None else last.known
        return {
            each.name: found
            if (found := before.get(each.name)) is not None and _is_same(found.definition, each)
            else self._applied(each)
            for each in definitions
        }

    def _applied(self, definition: Definition) -> _MadeAgent:
        """Returns the agent and the card of one definition."""
        if definition.unknown_fields:
            return _MadeAgent(definition, None, None)
        name, instance = definition.name, self.instance_of(definition)
        if name in self._tree:
            return _MadeAgent(definition, instance, definition.card_of(self._tree.card(name)))
        card = definition.card_of(instance.agent.card.replace(name=name, parent=None))
        return _MadeAgent(definition, instance, card if card.parent is not None else card.replace(parent=self._tree.root))

    def _changed_in_place(self, known: _MadeByName, last: _LastApplied) -> Sequence[str] | None:
        """Returns the names of the changed agents.

        None if an agent was added, removed or moved, or if a changed agent runs others: then all are built together.
        """
        names = {*self._code, *(name for name, each in known.items() if each.card is not None)}
        tree, agents = last.applied.tree, last.applied.agents
        if names != agents.keys():
            return None
        changed = [name for name in {**last.known, **known} if known.get(name) is not last.known.get(name)]
        for name in changed:
            if name not in agents or (name in known and known[name].card is None):
                return None
            card, before = self._card_of(name, known), tree.card(name)
            if card.parent != before.parent or _runs_others(card, self._instance_at(name, known).agent):
                return None
            if _runs_others(before, agents[name]):
                return None
        return changed

    def _card_of(self, name: str, known: _MadeByName) -> AgentCard:
        """Returns the agent's card with these definitions."""
        card = known[name].card if name in known else None
        return self._tree.card(name) if card is None else card

    def _instance_at(self, name: str, known: _MadeByName) -> Instance:
        instance = known[name].instance if name in known else None
        return self._instances[name] if instance is None else instance

    def _build_all(self, known: _MadeByName) -> _LastApplied:
        """Makes the set anew. Agents that are in use at the same place are shared. Raises as `apply`."""
        newer = tuple(sorted(name for name, each in known.items() if each.card is None))
        cards = {card.name: card for card in self._all_cards(known)}
        tree = AgentTree(cards.values())
        built: dict[str, Agent] = {}
        for name in _children_first(tree):
            children = [built[child] for child in tree.children(name)]
            built[name] = self._placed(cards[name], self._instance_at(name, known), children)
        agents, tree = collect(built[tree.root])  # also checks the agents that others refer to
        checking = tuple(name for name in agents if hasattr(self._instance_at(name, known).agent, "check"))
        return _LastApplied(known, AppliedDefinitions(agents, tree, newer), checking)

    def _rebuild_changed(self, known: _MadeByName, changed: Sequence[str], last: _LastApplied) -> _LastApplied:
        """Makes the changed agents and those above them. The others are those of the last time. Raises as `apply`."""
        tree, agents = self._tree_with_changes(known, changed, last), {**last.applied.agents}
        chains = {each: len(tree.chain(each)) for name in changed for each in tree.chain(name)}
        for name in sorted(chains, key=chains.__getitem__, reverse=True):
            children = [agents[child] for child in tree.children(name)]
            agents[name] = self._placed(tree.card(name), self._instance_at(name, known), children)
        new = [name for name in changed if hasattr(self._instance_at(name, known).agent, "check")]
        checking = (*(name for name in last.checking if name not in changed), *new)
        for name in checking:
            self._instance_at(name, known).agent.check(tree)  # type: ignore[attr-defined]
        newer = tuple(name for name in last.applied.newer if name not in changed)
        return _LastApplied(known, AppliedDefinitions(agents, tree, newer), checking)

    def _tree_with_changes(self, known: _MadeByName, changed: Sequence[str], last: _LastApplied) -> AgentTree:
        """Returns the tree with the changed cards at their places. Raises TreeError for the root's."""
        cards = [self._card_of(name, known) for name in changed]
        for card in cards:
            self._check_root(card)
        return last.applied.tree.replaced(cards)

    def _all_cards(self, known: _MadeByName) -> list[AgentCard]:
        """Returns the cards of all agents, those of code first, as they are with these definitions. Raises TreeError."""
        defined = {name: each.card for name, each in known.items() if each.card is not None}
        cards = [defined.pop(card.name, card) for card in self._tree]
        cards += [card for _, card in sorted(defined.items())]
        self._check_places(cards)
        return cards

    def instance_of(self, definition: Definition) -> Instance:
        """Returns the agent of a definition: the one in code, or one that the factory makes.

        Raises:
            DuplicateAgent: The name is taken by an agent in code.
            AgentDefinitionError: There is no agent of that name in code.
        """
        in_code = self._instances.get(definition.name)
        if definition.made_by is not None:
            if in_code is not None:
                raise DuplicateAgent(
                    f"The name {definition.name!r} is taken by an agent in code.",
                    fix="Leave `made_by` out to change its card, or choose another name.",
                )
            return self.factory.instance(definition)
        if in_code is None:
            raise AgentDefinitionError(
                f"There is no agent {definition.name!r} in code, and its definition does not say how it is made.",
                fix="Add `made_by`, or correct the name.",
            )
        return in_code

    def _check_root(self, card: AgentCard) -> None:
        """Raises TreeError if the card is the root's and changes what the root is."""
        if card.name != self._tree.root:
            return
        if card.parent is not None:
            raise TreeError(f"The agent {card.name!r} is the root, which has no parent.", fix="Leave `parent` out.")
        if not card.enabled:
            raise TreeError(f"The root {card.name!r} cannot be disabled: it answers when nobody else does.", fix="Enable it.")

    def _check_places(self, cards: Sequence[AgentCard]) -> None:
        """Raises TreeError for a change of the root, or of a composite's children."""
        by_name = {card.name: card for card in cards}
        self._check_root(by_name[self._tree.root])
        for card in cards:
            before = self._tree.card(card.name).parent if card.name in self._tree else None
            for parent in {before, card.parent} if before != card.parent else ():
                if parent in by_name and by_name[parent].is_composite:
                    raise TreeError(
                        f"The agent {card.name!r} cannot move into or out of {parent!r}, which runs its own children in code.",
                        fix="Choose a parent that is no composite agent.",
                    )

    def _placed(self, card: AgentCard, instance: Instance, children: Sequence[Agent]) -> Agent:
        """Returns the agent at its place; an equal one that is in use is shared."""
        in_code = self._code.get(card.name)
        is_same = in_code is not None and self._tree.card(card.name) == card and [*in_code.children] == [*children]
        if in_code is not None and is_same and not _is_closable(in_code):
            return in_code
        sharers = self._sharers.setdefault(instance, weakref.WeakSet())
        for known in sharers:
            if known.card == card and [*known.children] == [*children]:
                return known
        return DefinedAgent(instance, card, children, sharers)


def _is_closable(agent: Agent) -> bool:
    return inspect.iscoroutinefunction(getattr(agent, "close", None))


def _runs_others(card: AgentCard, agent: Agent) -> bool:
    """Returns whether the agent runs other agents in its own turn."""
    return card.is_composite or bool(getattr(agent, "delegates_to", None))


def _unwrapped(agent: Agent) -> Agent:
    return agent.agent if isinstance(agent, PlacedAgent) else agent


def _children_first(tree: AgentTree) -> list[str]:
    """Returns the names of the tree, children before parents."""
    order, pending = [], [tree.root]
    while pending:
        name = pending.pop()
        order.append(name)
        pending += tree.children(name)
    return order[::-1]
