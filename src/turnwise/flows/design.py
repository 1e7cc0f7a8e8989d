"""The checked settings of a flow."""

from collections.abc import Sequence
from typing import NamedTuple

from turnwise.facts.errors import FlowDefinitionError
from turnwise.flows.argument_checks import check_object, check_positive
from turnwise.flows.strategies import Popcorn
from turnwise.flows.tasks import Graph, Task
from turnwise.flows.until import AllComplete, Until
from turnwise.ports.selector import Selector

TURNS_PER_TASK = 10


class RunRules(NamedTuple):
    """The rules of a flow's run, apart from its tasks."""

    strategy: Selector
    """Picks the next agent when no agent is active and none was named."""
    until: Until
    """The condition that ends the flow early."""
    side_by_side: int = 1
    """The most agents that work at the same time."""
    max_turns: int | None = None
    """The most turns; None means 10 for each task."""


class Design(NamedTuple):
    """A flow's tasks, agents and rules."""

    graph: Graph
    """The tasks."""
    agents: Sequence[str]
    """The names of the agents for tasks that name no agent."""
    rules: RunRules
    """The rules of the run."""
    targets: Sequence[str] | None = None
    """The tasks to do, together with all upstream of them; None means all tasks."""
    relays: bool = False
    """If true, each agent gets the flow's request unchanged, and its normal answer is the task's result."""

    @property
    def max_turns(self) -> int:
        """The most turns of a run."""
        return self.rules.max_turns or TURNS_PER_TASK * len(self.graph.tasks)

    @property
    def names(self) -> Sequence[str]:
        """The names of all agents that may get a turn, in order."""
        named = (name for task in self.graph.tasks.values() for name in task.agent_names)
        return tuple(dict.fromkeys((*named, *self.agents)))

    @property
    def doers(self) -> Sequence[str]:
        """The names of all agents that may do a task, in order."""
        return tuple(dict.fromkeys(name for task in self.graph.tasks.values() for name in task.agent_names or self.agents))


def run_rules(
    flow: str,
    strategy: Selector | None = None,
    until: Until | None = None,
    side_by_side: int = 1,
    max_turns: int | None = None,
) -> RunRules:
    """Builds the rules of that flow; the defaults are Popcorn and AllComplete.

    Raises:
        FlowDefinitionError: A value is not a strategy, not a condition, or not an integer of 1 or more.
    """
    owner = f"The flow {flow!r}"
    check_positive(owner, "side_by_side", side_by_side)
    if max_turns is not None:
        check_positive(owner, "max_turns", max_turns)
    return RunRules(
        Popcorn() if strategy is None else check_object(owner, "strategy", strategy, ("name", "select"), "RoundRobin()"),
        AllComplete() if until is None else check_object(owner, "until", until, ("met", "check"), "AnyFailed()"),
        side_by_side,
        max_turns,
    )


def make_design(
    flow: str,
    tasks: Sequence[Task],
    rules: RunRules,
    *,
    agents: Sequence[str] = (),
    targets: Sequence[str] | None = None,
    relays: bool = False,
) -> Design:
    """Builds the design of that flow.

    Raises:
        FlowDefinitionError: The tasks are not a graph, a task has no agent, or a condition or target names an unknown
            task.
    """
    graph = Graph(flow, tasks)
    for name, task in graph.tasks.items():
        if not task.agents and not agents:
            raise FlowDefinitionError(f"No agent can do the task {name!r} of {flow!r}.", fix="Name agents.")
    if targets is not None and not targets:
        raise FlowDefinitionError(f"The flow {flow!r} has no targets.", fix="Name tasks, or leave them out to have all done.")
    for target in targets or ():
        graph.check(target)
    rules.until.check(graph)
    return Design(graph, agents, rules, targets, relays)
