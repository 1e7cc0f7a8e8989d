"""What a flow was made with."""

from collections.abc import Sequence
from typing import NamedTuple

from turnwise.facts.errors import FlowDefinitionError
from turnwise.flows.arguments import at_least_one, check_object
from turnwise.flows.strategies import Popcorn
from turnwise.flows.tasks.graph import Graph
from turnwise.flows.tasks.task import Task
from turnwise.flows.until import AllComplete, Until
from turnwise.ports.selector import Selector

TURNS_PER_TASK = 10


class RunRules(NamedTuple):
    """How a flow is run, whatever its tasks are. strategy: whose turn it is when nobody is active or named. until: when it
    ends, besides when nothing is left to do. side_by_side: how many agents may work at a time. max_turns: the limit of turns;
    None = ten a task.
    """

    strategy: Selector
    until: Until
    side_by_side: int = 1
    max_turns: int | None = None


class Design(NamedTuple):
    """graph: the tasks. agents: the names of those who may do a task that names nobody. targets: the tasks it is run for, with
    all upstream of them; None = all. relays: each agent is given what the flow was asked, as it is, and does what it always
    does; its answer is the task's result.
    """

    graph: Graph
    agents: Sequence[str]
    conduct: RunRules
    targets: Sequence[str] | None = None
    relays: bool = False

    @property
    def max_turns(self) -> int:
        """The limit of turns."""
        return self.conduct.max_turns or TURNS_PER_TASK * len(self.graph.tasks)

    @property
    def names(self) -> Sequence[str]:
        """The names of all who may get a turn, in order."""
        named = (name for task in self.graph.tasks.values() for name in task.agent_names)
        return tuple(dict.fromkeys((*named, *self.agents)))

    @property
    def doers(self) -> Sequence[str]:
        """The names of those who may do a task, in order."""
        return tuple(dict.fromkeys(name for task in self.graph.tasks.values() for name in task.agent_names or self.agents))


def run_rules(
    flow: str,
    strategy: Selector | None = None,
    until: Until | None = None,
    side_by_side: int = 1,
    max_turns: int | None = None,
) -> RunRules:
    """That flow's conduct; Popcorn and AllComplete, if nothing is given. FlowDefinitionError for what is no strategy, no
    condition, and no number of 1 or more.
    """
    owner = f"The flow {flow!r}"
    at_least_one(owner, "side_by_side", side_by_side)
    if max_turns is not None:
        at_least_one(owner, "max_turns", max_turns)
    return RunRules(
        Popcorn() if strategy is None else check_object(owner, "strategy", strategy, ("name", "select"), "RoundRobin()"),
        AllComplete() if until is None else check_object(owner, "until", until, ("met", "check"), "AnyFailed()"),
        side_by_side,
        max_turns,
    )


def make_design(
    flow: str,
    tasks: Sequence[Task],
    conduct: RunRules,
    *,
    agents: Sequence[str] = (),
    targets: Sequence[str] | None = None,
    relays: bool = False,
) -> Design:
    """The design of that flow. FlowDefinitionError for tasks that are no graph, or that nobody may do, and for conditions and
    targets that name none of them.
    """
    graph = Graph(flow, tasks)
    for name, task in graph.tasks.items():
        if not task.agents and not agents:
            raise FlowDefinitionError(f"Nobody is there to do the task {name!r} of {flow!r}.", fix="Name agents.")
    if targets is not None and not targets:
        raise FlowDefinitionError(f"The flow {flow!r} has no targets.", fix="Name tasks, or leave them out to have all done.")
    for target in targets or ():
        graph.check(target)
    conduct.until.check(graph)
    return Design(graph, agents, conduct, targets, relays)
