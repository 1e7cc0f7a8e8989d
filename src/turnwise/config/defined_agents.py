"""Applies definitions to the agents of code and configuration: which agents there are, and whose fields win."""

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

    root: Agent
    newer: tuple[str, ...]
    """Agents whose definition a newer release wrote. They are as in code, or missing."""


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
        self._sharers: weakref.WeakKeyDictionary[Instance, _Sharers] = weakref.WeakKeyDictionary()

    @property
    def tree(self) -> AgentTree:
        """The tree of code and configuration alone."""
        return self._tree

    def apply(self, definitions: Iterable[Definition]) -> AppliedDefinitions:
        """Returns the agents with these definitions. What is in code and not defined stays as it is.

        Agents that can be closed are wrapped, so that no set closes what another one uses.

        Raises:
            TurnwiseError: The definitions do not fit together, or an agent cannot be made. Names the agent.
        """
        known = {each.name: each for each in definitions}
        newer = tuple(sorted(name for name, each in known.items() if each.unknown_fields))
        served = {name: each for name, each in known.items() if not each.unknown_fields}
        made = {name: self.instance_of(definition) for name, definition in served.items()}
        cards = {card.name: card for card in self._cards(served.values(), made)}
        tree = AgentTree(cards.values())
        instances = {**self._instances, **made}
        built: dict[str, Agent] = {}
        for name in _children_first(tree):
            children = [built[child] for child in tree.children(name)]
            built[name] = self._placed(cards[name], instances[name], children)
        root = built[tree.root]
        collect(root)  # checks the agents that others refer to
        return AppliedDefinitions(root, newer)

    def tree_of(self, definitions: Iterable[Definition]) -> AgentTree:
        """Returns the tree with these definitions, without building it whole. Raises as `apply`."""
        served = [each for each in definitions if not each.unknown_fields]
        made = {each.name: self.instance_of(each) for each in served}
        return AgentTree(self._cards(served, made))

    def _cards(self, definitions: Iterable[Definition], made: Mapping[str, Instance]) -> list[AgentCard]:
        """Returns the cards of all agents, those of code first, as they are with these definitions. Raises TreeError."""
        defined = {each.name: each for each in definitions}
        cards = []
        for card in self._tree:
            definition = defined.pop(card.name, None)
            cards.append(definition.card_of(card) if definition is not None else card)
        for name, definition in sorted(defined.items()):
            own = made[name].agent.card.replace(name=name, parent=None)
            card = definition.card_of(own)
            cards.append(card if card.parent is not None else card.replace(parent=self._tree.root))
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
    order, pending = [], [tree.root]
    while pending:
        name = pending.pop()
        order.append(name)
        pending += tree.children(name)
    return order[::-1]
