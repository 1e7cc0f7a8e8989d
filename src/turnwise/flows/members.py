"""Who belongs to a flow: the agents that it was given as objects, and those that it names."""

from collections.abc import Iterable, Sequence

from turnwise.facts.errors import FlowDefinitionError
from turnwise.facts.spelling import did_you_mean
from turnwise.facts.tree import AgentTree
from turnwise.flows.strategies import Moderated
from turnwise.ports.agent import Agent
from turnwise.ports.selector import Selector


def name_of(agent: Agent | str) -> str:
    """The name of an agent that is given as an object or by it."""
    return agent if isinstance(agent, str) else agent.card.name


def objects_in(given: Iterable[Agent | str]) -> Sequence[Agent]:
    """Those that were given as objects, in order, each once: the flow's children."""
    return tuple({id(agent): agent for agent in given if not isinstance(agent, str)}.values())


def refuse_strangers(flow: str, names: Iterable[str], strategy: Selector, tree: AgentTree) -> None:
    """FlowDefinitionError when one of the names, or the strategy's moderator, is no agent of the tree, or holds the flow."""
    moderator = [strategy.moderator] if isinstance(strategy, Moderated) else []
    above = [flow, *tree.chain(flow)]
    for name in [*names, *moderator]:
        if name not in tree:
            problem = f"The flow {flow!r} names the agent {name!r}, which does not exist."
            raise FlowDefinitionError(problem, fix=did_you_mean(name, (card.name for card in tree if card.name not in above)))
        if name in above:
            raise FlowDefinitionError(f"The flow {flow!r} names {name!r}, in which it stands itself.")
