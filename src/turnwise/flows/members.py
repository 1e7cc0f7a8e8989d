"""The agents of a flow: child objects, and agents that it names."""

from collections.abc import Collection, Iterable, Sequence

from turnwise.facts.errors import FlowDefinitionError
from turnwise.facts.spelling import did_you_mean
from turnwise.facts.tree import AgentTree
from turnwise.flows.strategies import Moderated, Single
from turnwise.ports.agent import Agent
from turnwise.ports.selector import Selector


def agent_objects(given: Iterable[Agent | str]) -> Sequence[Agent]:
    """Returns the agents that were given as objects, in order, without duplicates: the flow's children."""
    return tuple({id(agent): agent for agent in given if not isinstance(agent, str)}.values())


def agents_to_run(names: Sequence[str], strategy: Selector) -> Sequence[str]:
    """Returns the names of all agents that a flow may run, including the strategy's moderator."""
    return (*names, strategy.moderator) if isinstance(strategy, Moderated) else names


def check_single_agent(flow: str, names: Collection[str], strategy: Selector) -> None:
    """Raises FlowDefinitionError if Single always picks an agent that may do none of the flow's tasks."""
    agent = strategy.agent if isinstance(strategy, Single) else None
    if agent is not None and agent not in names:
        problem = f"The flow {flow!r}: Single gives every turn to {agent!r}, who may do none of its tasks."
        raise FlowDefinitionError(problem, fix=did_you_mean(agent, names))


def check_agents_in_tree(flow: str, names: Iterable[str], tree: AgentTree) -> None:
    """Raises FlowDefinitionError if a name is not an agent of the tree, or is the flow itself or an agent above it."""
    above = [flow, *tree.chain(flow)]
    for name in names:
        if name not in tree:
            problem = f"The flow {flow!r} names the agent {name!r}, which does not exist."
            raise FlowDefinitionError(problem, fix=did_you_mean(name, (card.name for card in tree if card.name not in above)))
        if name in above:
            what = "itself" if name == flow else f"{name!r}, in which it stands itself"
            raise FlowDefinitionError(f"The flow {flow!r} names {what}.", fix="Name agents beside it, or below it.")
