"""From agents that hold their children to one tree of cards, and the agents by name."""

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import DuplicateAgent, FlowDefinitionError, TreeCycle, TreeError
from turnwise.facts.tree import AgentTree
from turnwise.ports.agent import Agent


def collect(root: Agent) -> tuple[Mapping[str, Agent], AgentTree]:
    """The agents by name and their tree, parents before children, with each card's parent set.

    Raises TreeCycle for an agent below itself, DuplicateAgent for one agent in two places or two of one name (behaviours
    A14, A15), TreeError when the root is no agent, FlowDefinitionError for flows that run each other, and whatever an agent's
    own `check` finds wrong.
    """
    if not isinstance(getattr(root, "card", None), AgentCard):
        raise TreeError(
            f"The root {root!r} is not an agent: it has no card.", fix="Decorate a function with @agent, or pass an Agent."
        )
    found: dict[str, Agent] = {}
    cards: list[AgentCard] = []
    parents: dict[int, str | None] = {}
    for agent, parent, chain in _walk(root, None, ()):
        name = agent.card.name
        if id(agent) in chain:
            raise TreeCycle(f"Agent {name!r} is below itself, through {parent!r}.", fix="Take it out of there.")
        if id(agent) in parents:
            raise _two_places(name, parents[id(agent)], parent)
        parents[id(agent)] = parent
        found.setdefault(name, agent)
        cards.append(agent.card.model_copy(update={"parent": parent}))
    tree = AgentTree(cards)
    for agent in found.values():
        check = getattr(agent, "check", None)
        if check is not None:
            check(tree)
    _refuse_circles({name: _runs(agent, tree) for name, agent in found.items()})
    return found, tree


def as_agent(root: object) -> Any:
    """What makes an agent of itself as one, such as a task; everything else as it is."""
    made = None if isinstance(root, type) else getattr(root, "as_agent", None)
    return made() if callable(made) else root


def _walk(agent: Agent, parent: str | None, chain: tuple[int, ...]) -> Iterator[tuple[Agent, str | None, tuple[int, ...]]]:
    yield agent, parent, chain
    for child in agent.children:
        yield from _walk(child, agent.card.name, (*chain, id(agent)))


def _runs(agent: Agent, tree: AgentTree) -> Sequence[str]:
    """Whom it runs in its own turn: those whom it says, or else a composite its children."""
    named: Sequence[str] | None = getattr(agent, "delegates_to", None)
    if named is None and agent.card.is_composite:
        return tree.children(agent.card.name)
    return named or ()


def _refuse_circles(runs: Mapping[str, Sequence[str]]) -> None:
    """A tree has no circle, but whoever names agents elsewhere can close one."""
    try:
        TopologicalSorter(runs).prepare()
    except CycleError as error:
        circle = " runs ".join(map(repr, reversed(error.args[1])))
        raise FlowDefinitionError(
            f"Agents run each other without an end: {circle}.", fix="Let one of these flows name somebody else."
        ) from None


def _two_places(name: str, first: str | None, second: str | None) -> DuplicateAgent:
    where = f"twice below {first!r}" if first == second else f"below {first!r} and below {second!r}"
    return DuplicateAgent(
        f"Agent {name!r} stands {where}.", fix="An agent has one parent: make a second agent with a name of its own."
    )
