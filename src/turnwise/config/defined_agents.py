"""Applies definitions to the agents of code and configuration: which agents there are, and which fields win."""

import inspect
import weakref
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import NamedTuple

from turnwise.agents.collect import collect
from turnwise.config.agent_factory import AgentFactory, Instance
from turnwise.config.entries import PlacedAgent
from turnwise.facts.cards import AgentCard
from turnwise.facts.definitions import Definition
from turnwise.facts.errors import AgentDefinitionError, DuplicateAgent, TreeError
from turnwise.facts.events import Event
from turnwise.facts.tree import AgentTree
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.ports.jobs import DoesJobs


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


class _Applied(NamedTuple):
    """The agent that one definition makes. Sets share it as long as the version serves."""

    definition: Definition
    instance: Instance | None
    """None = a newer release wrote the definition."""
    card: AgentCard | None
    """None, as `instance`."""


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
        self._last: Mapping[str, _Applied] = {}
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
        known = {each.name: self._applied(each) for each in definitions}
        self._last = known
        newer = tuple(sorted(name for name, each in known.items() if each.card is None))
        cards = {card.name: card for card in self._cards(known)}
        tree = AgentTree(cards.values())
        instances = {**self._instances, **{name: each.instance for name, each in known.items() if each.instance is not None}}
        built: dict[str, Agent] = {}
        for name in _children_first(tree):
            children = [built[child] for child in tree.children(name)]
            built[name] = self._placed(cards[name], instances[name], children)
        agents, tree = collect(built[tree.root])  # also checks the agents that others refer to
        return AppliedDefinitions(agents, tree, newer)

    def tree_of(self, definitions: Iterable[Definition]) -> AgentTree:
        """Returns the tree with these definitions, without building it whole. Raises as `apply`."""
        return AgentTree(self._cards({each.name: self._applied(each) for each in definitions}))

    def _applied(self, definition: Definition) -> "_Applied":
        """Returns the agent and the card of one definition: those of the last set, if the version is the same."""
        last = self._last.get(definition.name)
        if last is not None and _is_same(last.definition, definition):
            return last
        if definition.unknown_fields:
            return _Applied(definition, None, None)
        name, instance = definition.name, self.instance_of(definition)
        if name in self._tree:
            return _Applied(definition, instance, definition.card_of(self._tree.card(name)))
        card = definition.card_of(instance.agent.card.replace(name=name, parent=None))
        return _Applied(definition, instance, card if card.parent is not None else card.replace(parent=self._tree.root))

    def _cards(self, applied: Mapping[str, "_Applied"]) -> list[AgentCard]:
        """Returns the cards of all agents, those of code first, as they are with these definitions. Raises TreeError."""
        defined = {name: each.card for name, each in applied.items() if each.card is not None}
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

    def _check_places(self, cards: Sequence[AgentCard]) -> None:
        """Raises TreeError for a change of the root, or of a composite's children."""
        root, by_name = self._tree.root, {card.name: card for card in cards}
        if by_name[root].parent is not None:
            raise TreeError(f"The agent {root!r} is the root, which has no parent.", fix="Leave `parent` out.")
        if not by_name[root].enabled:
            raise TreeError(f"The root {root!r} cannot be disabled: it answers when nobody else does.", fix="Enable it.")
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
