"""Builds the flows of a configuration file: entries of kind `flow`, their tasks and their `until` conditions."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import Any, NamedTuple, cast

from turnwise.config.agent_section import FlowSection, Labels, ResultSchema, TaskEntry, UntilKeys, UntilList
from turnwise.config.document import Document, Where
from turnwise.config.entries import PlacedAgent, report_unknown_tasks
from turnwise.config.importing import resolve
from turnwise.config.part_entries import AgentReference, build_tool
from turnwise.facts.errors import FlowDefinitionError, TurnwiseError
from turnwise.facts.tree import AgentCard
from turnwise.flows.flow import Flow
from turnwise.flows.result_types import ResultType
from turnwise.flows.strategies import Moderated, named_strategy
from turnwise.flows.tasks import Graph, Task
from turnwise.flows.until import AllComplete, AnyComplete, AnyFailed, MaxModelCalls, MaxTurns, Until
from turnwise.ports.agent import Agent
from turnwise.ports.selector import Selector
from turnwise.ports.tool import Tool

_NAMED_CONDITIONS: Mapping[str, Callable[[], Until]] = {
    "all_complete": AllComplete,
    "any_complete": AnyComplete,
    "any_failed": AnyFailed,
}


def build_until(item: str | UntilList | UntilKeys) -> Until:
    """Builds an `until` condition. If there are several keys, or a list, one condition is enough."""
    if isinstance(item, str):
        return _NAMED_CONDITIONS[item]()
    if isinstance(item, UntilList):
        return reduce(or_, map(build_until, item.root))
    return reduce(or_, [_build_keyed(key, value) for key, value in item if key in item.model_fields_set])


def _build_keyed(key: str, value: Any) -> Until:
    """Builds the condition that a key of `until` names."""
    if key in ("any", "all"):
        return reduce(or_ if key == "any" else and_, map(build_until, value))
    made: Mapping[str, Callable[[], Until]] = {
        "any_complete": lambda: AnyComplete(*value),
        "any_failed": lambda: AnyFailed(*value),
        "max_turns": lambda: MaxTurns(value),
        "max_model_calls": lambda: MaxModelCalls(value),
    }
    return made[key]()


class TaskParts(NamedTuple):
    """A task of the file, with its result type and tools built."""

    where: Where
    section: TaskEntry
    result: Any
    tools: Sequence[Tool]

    def task(self, agents: Mapping[str, Agent]) -> Task:
        """Builds the task. Agents below the flow are passed as objects, all others by name."""
        fields = self.section.model_dump(exclude={"name", "agents", "result", "tools"})
        doers = [agents.get(name, name) for name in self.section.agents]
        return Task(self.section.name, agents=doers, result=self.result, tools=self.tools, **fields)


class FlowRecipe:
    """A validated entry of kind `flow`. Builds the flow once its card and children are known."""

    purpose = "to work in the flow"

    def __init__(
        self, where: Where, section: FlowSection, tasks: Sequence[TaskParts], strategy: Selector | None, until: Until | None
    ) -> None:
        self._where, self._section, self._tasks = where, section, tasks
        self._strategy, self._until = strategy, until

    @property
    def referenced_agents(self) -> Sequence[AgentReference]:
        """The agents that the flow names, with their locations."""
        own = [AgentReference(name, None, (*self._where, "agents", index)) for index, name in enumerate(self._section.agents)]
        theirs = [
            AgentReference(name, None, (*task.where, "agents", index))
            for task in self._tasks
            for index, name in enumerate(task.section.agents)
        ]
        moderator = self._strategy.moderator if isinstance(self._strategy, Moderated) else None
        return [*own, *theirs, *([AgentReference(moderator, None, (*self._where, "strategy"))] if moderator else [])]

    def agent(self, card: AgentCard, children: Sequence[Agent], about: Mapping[str, str]) -> Agent:
        """Builds the flow.

        Raises:
            FlowDefinitionError: for a task that no agent can do.
        """
        below = {child.card.name: child for child in children}
        fields = card.model_dump(exclude={"name", "description", "kind"})
        doers = [below.get(name, name) for name in self._section.agents] if self._section.agents else list(children)
        flow = Flow(
            card.name,
            [task.task(below) for task in self._tasks],
            agents=doers,
            strategy=self._strategy,
            until=self._until,
            side_by_side=self._section.side_by_side,
            max_turns=self._section.max_turns,
            targets=self._section.targets,
            description=card.description,
            **fields,
        )
        idle = [child for child in children if child not in flow.children]
        return PlacedAgent(flow, flow.card, idle) if idle else flow

    def try_out(self, document: Document, card: AgentCard) -> bool:
        """Always True: the remaining checks need the children."""
        return True


def read_flow(document: Document, where: Where, section: FlowSection) -> FlowRecipe | None:
    """Prepares a flow and imports the modules it names. Returns None after it reported the problems."""
    tasks = [_task_parts(document, (*where, "tasks", index), task) for index, task in enumerate(section.tasks)]
    if document.has_problem(where):
        return None
    report_unknown_tasks(document, where, section)
    if document.has_problem(where):
        return None
    _report_cycles(document, section.name, tasks)
    if document.has_problem(where):
        return None
    strategy, until = section.strategy, section.until
    return FlowRecipe(
        where,
        section,
        tasks,
        strategy and named_strategy(strategy if isinstance(strategy, str) else strategy.model_dump(mode="json")),
        until and build_until(until),
    )


def _task_parts(document: Document, where: Where, section: TaskEntry) -> TaskParts:
    """Reads a task's section with its result type and tools, and reports its problems."""
    result = _result(document, (*where, "result"), section)
    tools = _tools(document, (*where, "tools"), section.tools)
    parts = TaskParts(where, section, result, tools)
    if not document.has_problem(where):
        try:
            parts.task({})
        except TurnwiseError as error:
            document.report_error(where, error)
    return parts


def _result(document: Document, where: Where, section: TaskEntry) -> Any:
    """The task's result type as `Task` accepts it; reports an invalid one."""
    kind: Any = str
    try:
        kind = _result_type(section.result, document.folder)
        ResultType(kind, section.name)
    except TurnwiseError as error:
        document.report_error(where, error)
    return kind


def _result_type(item: str | Labels | ResultSchema, folder: Path) -> Any:
    if isinstance(item, str):
        return str if item == "text" else resolve(item, folder)
    return item.labels if isinstance(item, Labels) else item.json_schema


def _tools(document: Document, where: Where, items: Sequence[Any]) -> list[Tool]:
    """Builds a task's tools, and reports those that a task cannot have."""
    found = [(index, build_tool(document, (*where, index), item)) for index, item in enumerate(items)]
    tools: list[Tool] = []
    for index, tool in found:
        if isinstance(tool, AgentReference) or (tool is not None and not hasattr(tool, "spec")):
            problem = "A task takes single tools, no other agents and no sets of tools."
            document.report((*where, index), problem, "Give it to an agent of the task.", FlowDefinitionError)
        elif tool is not None:
            tools.append(cast(Tool, tool))
    return tools


def _report_cycles(document: Document, flow: str, tasks: Sequence[TaskParts]) -> None:
    """Reports the graph's error at the first task that the error names."""
    try:
        Graph(flow, [task.task({}) for task in tasks])
    except FlowDefinitionError as error:
        told = error.problem.removeprefix(f"The flow {flow!r}")
        named = [(told.find(repr(task.section.name)), task.where) for task in tasks]
        first = min((place for place in named if place[0] >= 0), default=(0, tasks[0].where if tasks else ()))
        document.report_error(first[1], error)
