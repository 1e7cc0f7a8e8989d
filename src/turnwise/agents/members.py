"""The agents below an agent: checks its children, and collects all below a root, by name and as the tree of their cards."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from turnwise.facts.errors import AgentDefinitionError, DuplicateAgent, FlowDefinitionError, TreeCycle, TreeError
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.ports.agent import Agent


def members_of(owner: str, given: Iterable[Agent]) -> tuple[Agent, ...]:
    """Returns the agents as a tuple, in order.

    Args:
        owner: The parent agent's name, for error messages.
        given: The agents.

    Raises:
        AgentDefinitionError: An element is not an agent but, for example, a plain function, a class or a name. The
            message gives its position.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise AgentDefinitionError(
            f"The agents below {owner!r} are given as a {type(given).__name__}.", fix="Give a list of agents."
        )
    members = tuple(given)
    for place, member in enumerate(members, 1):
        if isinstance(member, type) or not isinstance(getattr(member, "card", None), AgentCard):
            shown = getattr(member, "__qualname__", None) or repr(member)
            raise AgentDefinitionError(f"Number {place} below {owner!r} is no agent: {shown[:100]}.", fix=_fix_for(member))
    return members


def collect(root: Agent) -> tuple[Mapping[str, Agent], AgentTree]:
    """Collects all agents below the root.

    Returns:
        The agents by name, parents before children, and their tree, in which each card's parent is set.

    Raises:
        TreeCycle: An agent is below itself (behaviour A14).
        DuplicateAgent: One agent is in two places, or two agents have one name (behaviour A15).
        TreeError: The root is not an agent.
        FlowDefinitionError: Flows run each other in a circle.
        TurnwiseError: The error that an agent's own `check` raises.
    """
    if not isinstance(getattr(root, "card", None), AgentCard):
        raise TreeError(
            f"The root {root!r} is not an agent: it has no card.", fix="Decorate a function with @agent, or pass an Agent."
        )
    agents: dict[str, Agent] = {}
    cards: list[AgentCard] = []
    parents: dict[int, str | None] = {}
    for agent, parent, chain in _walk(root, None, ()):
        name = agent.card.name
        if id(agent) in chain:
            raise TreeCycle(f"Agent {name!r} is below itself, through {parent!r}.", fix="Take it out of there.")
        if id(agent) in parents:
            raise _two_places(name, parents[id(agent)], parent)
        parents[id(agent)] = parent
        agents.setdefault(name, agent)
        cards.append(agent.card if agent.card.parent == parent else agent.card.replace(parent=parent))
    tree = AgentTree(cards)
    for agent in agents.values():
        check = getattr(agent, "check", None)
        if check is not None:
            check(tree)
    _check_no_cycles({name: _delegates_of(agent, tree) for name, agent in agents.items()})
    return agents, tree


def as_agent(root: object) -> Any:
    """Returns `root.as_agent()` if the object has that method, as a task does; otherwise the object itself."""
    factory = None if isinstance(root, type) else getattr(root, "as_agent", None)
    return factory() if callable(factory) else root


def _fix_for(member: object) -> str:
    """Returns the fix for a child that is not an agent."""
    if isinstance(member, str):
        return "Give the agent itself, not its name."
    if isinstance(member, type):
        return "Give an instance of the class."
    if callable(member):
        return "Make an agent of the function: decorate it with @agent, or wrap it: agent(name='…')(function)."
    return "Give an agent: of @agent, LlmAgent, an adapter, or a class with card, children and run."


def _walk(agent: Agent, parent: str | None, chain: tuple[int, ...]) -> Iterator[tuple[Agent, str | None, tuple[int, ...]]]:
    yield agent, parent, chain
    for child in agent.children:
        yield from _walk(child, agent.card.name, (*chain, id(agent)))


def _delegates_of(agent: Agent, tree: AgentTree) -> Sequence[str]:
    """Returns the names of the agents that this one runs in its own turn: `delegates_to`, or the children of a composite."""
    named: Sequence[str] | None = getattr(agent, "delegates_to", None)
    if named is None and agent.card.is_composite:
        return tree.children(agent.card.name)
    return named or ()


def _check_no_cycles(runs: Mapping[str, Sequence[str]]) -> None:
    """Raises FlowDefinitionError when agents run each other in a circle.

    The tree has no circle, but an agent that names others anywhere in the tree can close one.
    """
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
