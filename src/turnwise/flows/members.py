"""Who belongs to a flow: the agents that it was given as objects, and those that it names."""

from collections.abc import Collection, Iterable, Sequence

from turnwise.facts.errors import FlowDefinitionError
from turnwise.facts.spelling import did_you_mean
from turnwise.facts.tree import AgentTree
from turnwise.flows.strategies import Moderated, Single
from turnwise.ports.agent import Agent
from turnwise.ports.selector import Selector


def objects_in(given: Iterable[Agent | str]) -> Sequence[Agent]:
    """Those that were given as objects, in order, each once: the flow's children."""
    return tuple({id(agent): agent for agent in given if not isinstance(agent, str)}.values())


def all_named(names: Sequence[str], strategy: Selector) -> Sequence[str]:
    """All whom a flow runs: those whom it names, and the strategy's moderator."""
    return (*names, strategy.moderator) if isinstance(strategy, Moderated) else names


def refuse_absent(flow: str, names: Collection[str], strategy: Selector) -> None:
    """FlowDefinitionError when the strategy gives every turn to somebody who does nothing in the flow."""
    agent = strategy.agent if isinstance(strategy, Single) else None
    if agent is not None and agent not in names:
        problem = f"The flow {flow!r}: Single gives every turn to {agent!r}, who may do none of its tasks."
        raise FlowDefinitionError(problem, fix=did_you_mean(agent, names))


def refuse_strangers(flow: str, names: Iterable[str], tree: AgentTree) -> None:
    """FlowDefinitionError when one of the names is no agent of the tree, or holds the flow."""
    above = [flow, *tree.chain(flow)]
    for name in names:
        if name not in tree:
            problem = f"The flow {flow!r} names the agent {name!r}, which does not exist."
            raise FlowDefinitionError(problem, fix=did_you_mean(name, (card.name for card in tree if card.name not in above)))
        if name in above:
            what = "itself" if name == flow else f"{name!r}, in which it stands itself"
            raise FlowDefinitionError(f"The flow {flow!r} names {what}.", fix="Name agents beside it, or below it.")
