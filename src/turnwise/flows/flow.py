"""Flow: tasks that depend on each other, done by agents one turn after the other (behaviours D1 to D13)."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar, overload

from turnwise.agents.function import make_card
from turnwise.facts.errors import FlowDefinitionError
from turnwise.facts.events import Event
from turnwise.facts.hints import did_you_mean
from turnwise.facts.tree import AgentCard, AgentTree, Kind
from turnwise.flows.argument_checks import agent_name, as_tuple, check_text
from turnwise.flows.control.running import run_design
from turnwise.flows.design import Design, make_design, run_rules
from turnwise.flows.functions import TaskFunction
from turnwise.flows.strategies import Moderated, Single
from turnwise.flows.tasks.graph import Graph
from turnwise.flows.tasks.task import Task, task_name
from turnwise.flows.until import Until
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
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


class Flow:
    """An agent that lets other agents do its tasks.

    The answer is the result of the tasks that no other task needs. A run raises FlowFailed if one of these did not
    succeed. It raises FlowStuck if no reachable agent may do the ready tasks, and LimitReached (`turns`, `model_calls`)
    at a limit.

    Args:
        name: The flow's name.
        tasks: The tasks. Their order breaks ties between ready tasks. `task` adds a function as a task.
        agents: The agents for tasks that name no agent. An agent object becomes a child of the flow; an agent given by
            its name may be anywhere in the tree.
        strategy: Picks the next agent when no agent is active and none was named; Popcorn by default.
        until: A condition that ends the flow before all tasks are complete.
        side_by_side: The most agents that work at the same time.
        max_turns: The most turns, by default 10 for each task; then the flow ends with `limit:turns`.
        targets: The tasks to do, together with all upstream of them; None means all.
        description: The card's description.
        card: Other fields of AgentCard.

    Raises:
        FlowDefinitionError: The tasks are not a graph, or another value is not valid.
    """

    kind: ClassVar[Kind] = "flow"

    def __init__(
        self,
        name: str,
        tasks: Sequence[Task] = (),
        *,
        agents: Sequence[Agent | str] = (),
        strategy: Selector | None = None,
        until: Until | None = None,
        side_by_side: int = 1,
        max_turns: int | None = None,
        targets: Sequence[Task | str] | None = None,
        description: str = "",
        **card: Any,
    ) -> None:
        check_text("A flow", "its name", name, instead='Give it first: Flow("name", …).')
        owner = f"The flow {name!r}"
        self.card: AgentCard = make_card({"name": name, "description": description, "kind": self.kind, **card})
        self._tasks = [*as_tuple(owner, "tasks", tasks)]
        self._agents = as_tuple(owner, "agents", agents)
        self._agent_names = tuple(dict.fromkeys(agent_name(owner, agent) for agent in self._agents))
        self._rules = run_rules(name, strategy, until, side_by_side, max_turns)
        self._targets = None if targets is None else _targets(owner, targets)
        self._made: Design | None = None
        self._is_in_use = False
        if self._tasks:
            self._made = self._design()

    def __repr__(self) -> str:
        return f"Flow({self.card.name!r})"

    @property
    def children(self) -> Sequence[Agent]:
        """The agents that were given as objects, in order, without duplicates."""
        return agent_objects([*(agent for task in self._tasks for agent in task.agents), *self._agents])

    @property
    def delegates_to(self) -> Sequence[str]:
        """The names of all agents that the flow may run. Raises FlowDefinitionError while it has no tasks."""
        return agents_to_run(self.design.names, self._rules.strategy)

    @property
    def design(self) -> Design:
        """The flow's checked settings. Raises FlowDefinitionError while it has no tasks."""
        if self._made is None:
            self._made = self._design()
        return self._made

    @property
    def graph(self) -> Graph:
        """The flow's tasks. Raises FlowDefinitionError while it has none."""
        return self.design.graph

    @overload
    def task(self, function: Callable[..., Any], /) -> TaskFunction: ...
    @overload
    def task(self, /, **options: Any) -> Callable[[Callable[..., Any]], TaskFunction]: ...
    def task(
        self, function: Callable[..., Any] | None = None, /, **options: Any
    ) -> TaskFunction | Callable[[Callable[..., Any]], TaskFunction]:
        """Adds a function as a task: `@flow.task` or `@flow.task(depends_on=[…])`.

        The task and its agent have the function's name. The parameters are filled by name: `context`, `request` (the
        flow's request as text), and the results of tasks it depends on. The returned value is the task's result, of the
        annotated type.

        Args:
            function: The function.
            options: The arguments of Task, without `agents`.

        Returns:
            The agent of the task.

        Raises:
            FlowDefinitionError: The function or an option is not valid, or a Runner uses the flow already.
        """

        def add(function: Callable[..., Any]) -> TaskFunction:
            if self._is_in_use:
                problem = f"The flow {self.card.name!r} is in use already: no task can be added to it."
                raise FlowDefinitionError(problem, fix="Add all its tasks before a Runner is made with it.")
            agent = TaskFunction(function, options)
            self._tasks.append(agent.task)
            self._made = None
            return agent

        return add if function is None else add(function)

    def check(self, tree: AgentTree) -> None:
        """Checks the flow against the tree; afterwards it accepts no more tasks.

        Raises:
            FlowDefinitionError: The tasks are not a graph, or name agents that do not exist or that contain the flow.
        """
        check_agents_in_tree(self.card.name, self.delegates_to, tree)
        self._is_in_use = True

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        async for event in run_design(self.design, context):
            yield event

    def _design(self) -> Design:
        flow, agents = self.card.name, self._agent_names
        design = make_design(flow, self._tasks, self._rules, agents=agents, targets=self._targets)
        check_single_agent(flow, design.doers, self._rules.strategy)
        return design


def _targets(owner: str, given: Sequence[Task | str]) -> Sequence[str]:
    return tuple(task_name(owner, each) for each in as_tuple(owner, "targets", given))
