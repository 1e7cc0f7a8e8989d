"""A flow: tasks that depend on each other, done by agents whose turn is decided one after the other (behaviours D1 to D13)."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, ClassVar, overload

from turnwise.agents.function import make_card
from turnwise.facts.cards import AgentCard, Kind
from turnwise.facts.errors import FlowDefinitionError
from turnwise.facts.events import Event
from turnwise.facts.tree import AgentTree
from turnwise.flows.arguments import agent_name, listed, text
from turnwise.flows.control.running import run_design
from turnwise.flows.design import Design, make_design, run_rules
from turnwise.flows.functions import TaskFunction
from turnwise.flows.members import all_named, objects_in, refuse_absent, refuse_strangers
from turnwise.flows.tasks.graph import Graph
from turnwise.flows.tasks.task import Task, task_name
from turnwise.flows.until import Until
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.ports.selector import Selector


class Flow:
    """An agent that has its tasks done by others.

    tasks: in the order of their creation, which decides between those that are ready; `task` adds one that is a function.
    agents: who may do a task that names nobody. An agent that is given as an object becomes a child of the flow; one that is
    given by its name stands anywhere in the tree. strategy: whose turn it is when nobody is at work and nobody was named;
    Popcorn by default. until: ends the flow before all tasks are complete. side_by_side: how many agents may work at a time.
    max_turns: 10 a task by default; then the flow ends `limit:turns`. targets: the tasks it is run for, with all upstream of
    them; None = all.

    Its answer is the result of the tasks that no other needs. FlowFailed when one of these did not succeed, FlowStuck when
    nobody may do what is ready, LimitReached (turns, model_calls). Raises FlowDefinitionError for tasks that are no graph,
    and for whatever else no flow can be made of.
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
        text("A flow", "its name", name, instead='Give it first: Flow("name", …).')
        owner = f"The flow {name!r}"
        self.card: AgentCard = make_card({"name": name, "description": description, "kind": self.kind, **card})
        self._tasks = [*listed(owner, "tasks", tasks)]
        self._agents = listed(owner, "agents", agents)
        self._agent_names = tuple(dict.fromkeys(agent_name(owner, agent) for agent in self._agents))
        self._conduct = run_rules(name, strategy, until, side_by_side, max_turns)
        self._targets = None if targets is None else _targets(owner, targets)
        self._made: Design | None = None
        self._is_in_use = False
        if self._tasks:
            self._made = self._design()

    def __repr__(self) -> str:
        return f"Flow({self.card.name!r})"

    @property
    def children(self) -> Sequence[Agent]:
        """The agents that were given as objects, in order, each once."""
        return objects_in([*(agent for task in self._tasks for agent in task.agents), *self._agents])

    @property
    def delegates_to(self) -> Sequence[str]:
        """The names of all whom it runs. FlowDefinitionError while it has no tasks."""
        return all_named(self.design.names, self._conduct.strategy)

    @property
    def design(self) -> Design:
        """What it is made of. FlowDefinitionError while it has no tasks."""
        if self._made is None:
            self._made = self._design()
        return self._made

    @property
    def graph(self) -> Graph:
        """Its tasks. FlowDefinitionError while it has none."""
        return self.design.graph

    @overload
    def task(self, function: Callable[..., Any], /) -> TaskFunction: ...
    @overload
    def task(self, /, **options: Any) -> Callable[[Callable[..., Any]], TaskFunction]: ...
    def task(
        self, function: Callable[..., Any] | None = None, /, **options: Any
    ) -> TaskFunction | Callable[[Callable[..., Any]], TaskFunction]:
        """Adds a task that is a function, with or without options: `@flow.task` or `@flow.task(depends_on=[…])`.

        The task and the agent that does it have the function's name. Its parameters are filled by name: `context`,
        `request` (what the flow was asked, as text), and the results of tasks it depends on. What it returns is the task's
        result, of the type that it is annotated with. options: as of Task, less its agents. Gives the agent. Once the flow is
        in use, in the agents of a Runner, it takes no more tasks.
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
        """FlowDefinitionError when the tasks are no graph, or name agents that are not there or hold the flow itself."""
        refuse_strangers(self.card.name, self.delegates_to, tree)
        self._is_in_use = True

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        async for event in run_design(self.design, context):
            yield event

    def _design(self) -> Design:
        flow, agents = self.card.name, self._agent_names
        design = make_design(flow, self._tasks, self._conduct, agents=agents, targets=self._targets)
        refuse_absent(flow, design.doers, self._conduct.strategy)
        return design


def _targets(owner: str, given: Sequence[Task | str]) -> Sequence[str]:
    return tuple(task_name(owner, each) for each in listed(owner, "targets", given))
