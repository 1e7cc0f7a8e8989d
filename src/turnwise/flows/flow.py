"""Flow: tasks that depend on each other, done by agents one turn after the other (behaviours D1 to D13)."""

import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, get_type_hints, overload

from turnwise.agents.function import make_card
from turnwise.facts.errors import AgentFailed, FlowDefinitionError
from turnwise.facts.events import Event
from turnwise.facts.hints import did_you_mean
from turnwise.facts.tree import AgentCard, AgentTree, Kind
from turnwise.flows import tasks
from turnwise.flows.argument_checks import agent_name, as_tuple, check_text, kind_capitalized, kind_of
from turnwise.flows.controller import run_design
from turnwise.flows.design import Design, make_design, run_rules
from turnwise.flows.strategies import Moderated, Single
from turnwise.flows.tasks import Graph, task_name
from turnwise.flows.until import Until
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.ports.selector import Selector
from turnwise.tools.event_loop import in_thread
from turnwise.tools.function import json_value

_TURN_PARAMETERS = frozenset({"context", "request"})
_TASK_OPTIONS = tuple(name for name in inspect.signature(tasks.Task).parameters if name != "agents")


class TaskFunction:
    """An agent for one task, which it creates; the function's return value is the task's result.

    Args:
        function: The function.
        options: The arguments of Task. By default the name is the function's, the objective is the docstring's first
            line, and the result type is the annotated return type.

    Raises:
        FlowDefinitionError: The function or an option is not valid.
    """

    children: Sequence[Agent] = ()

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        name = _name(function, options)
        first_line = (inspect.getdoc(function) or "").partition("\n")[0]
        objective = options.get("objective", first_line)
        result = options.get("result", _return_type(function, name))
        self.card = make_card({"name": name, "description": objective})
        self.task = tasks.Task(**{**options, "name": name, "objective": objective, "result": result, "agents": [self]})
        self._function = function
        self._parameter_names = _parameters(function, self.task)

    def __repr__(self) -> str:
        return f"TaskFunction({self.card.name!r})"

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._function(*arguments, **named)

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        """Calls the function with the results that its parameters name, and reports its value as the task's result."""
        assignment = context.assignment
        if assignment is None:
            raise AgentFailed(f"{self.card.name!r} is a task of a flow, and was asked outside of it.")
        task = assignment.tasks[0]
        values: dict[str, Any] = {name: task.given.get(name) for name in self._parameter_names}
        values |= {
            name: value for name, value in (("context", context), ("request", assignment.request.text)) if name in values
        }
        if inspect.iscoroutinefunction(self._function):
            result = await self._function(**values)
        else:
            result = await in_thread(self._function, **values)
        if not assignment.is_over:
            await assignment.succeed(json_value("" if result is None else result, self.card.name), task=task.name)
        return
        yield  # makes this an async generator; the flow emits the result


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
        tasks: Sequence[tasks.Task] = (),
        *,
        agents: Sequence[Agent | str] = (),
        strategy: Selector | None = None,
        until: Until | None = None,
        side_by_side: int = 1,
        max_turns: int | None = None,
        targets: Sequence[tasks.Task | str] | None = None,
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


class Task(tasks.Task):
    __doc__ = tasks.Task.__doc__

    def as_agent(self) -> Agent:
        """Returns a flow of this task alone, with the task's name. Raises FlowDefinitionError if it cannot be done alone."""
        return Flow(self.name, [self], description=self.objective)


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


def _targets(owner: str, given: Sequence[tasks.Task | str]) -> Sequence[str]:
    return tuple(task_name(owner, each) for each in as_tuple(owner, "targets", given))


def _name(function: Callable[..., Any], options: Mapping[str, Any]) -> str:
    """Returns the task's name. Raises FlowDefinitionError if the object is not a function, or for unknown options."""
    if not callable(function) or isinstance(function, type) or hasattr(function, "card"):
        fix = 'Write @flow.task before a function; for an agent that there is, give the flow Task("name", agents=[…]).'
        raise FlowDefinitionError(f"{kind_capitalized(function)} cannot be made a task.", fix=fix)
    name = options.get("name") or getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise FlowDefinitionError(f"A task's name is {kind_of(name)}.", fix="Give it as name=….")
    owner = f"Task {name!r}"
    for option in options:
        if option == "agents":
            raise FlowDefinitionError(f"{owner} is done by its function, so it takes no agents.", fix="Leave them out.")
        if option not in _TASK_OPTIONS:
            raise FlowDefinitionError(f"{owner}: there is no option {option!r}.", fix=did_you_mean(option, _TASK_OPTIONS))
    check_text(owner, "its objective", options.get("objective", ""))
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise FlowDefinitionError(f"{owner}: its function yields.", fix="Let it return its result.")
    return name


def _return_type(function: Callable[..., Any], name: str) -> Any:
    """Returns the annotated return type; str if there is none."""
    try:
        returned = get_type_hints(function).get("return", str)
    except Exception as error:
        problem = f"Task {name!r}: the annotations of its function cannot be read: {error}."
        raise FlowDefinitionError(
            problem, fix="Import what they name where the function is defined, or give result=…."
        ) from None
    return str if returned in (None, type(None), Any) else returned


def _parameters(function: Callable[..., Any], task: tasks.Task) -> Sequence[str]:
    """Returns the names of the parameters to fill. Raises FlowDefinitionError for one that nothing fills."""
    known = _TURN_PARAMETERS | set(task.depends_on)
    needs = f" ({', '.join(task.depends_on)})" if task.depends_on else ""
    names = []
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        problem = f"Task {task.name!r}: the parameters of its function are not known."
        raise FlowDefinitionError(problem, fix="Call it in a function of your own.") from None
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            problem = f"Task {task.name!r}: the parameter {parameter.name!r} cannot be filled by its name."
            raise FlowDefinitionError(problem, fix="Take * and / out of the function's parameters.")
        if parameter.name in known:
            names.append(parameter.name)
        elif parameter.default is parameter.empty:
            raise FlowDefinitionError(
                f"Task {task.name!r}: its function wants {parameter.name!r}, which nothing fills.",
                fix=f"A parameter is context, request, or a task named in depends_on{needs}, or has a default.",
            )
    return names
