"""Reads the flows of a configuration file: entries of kind `flow`, their tasks and their `until` conditions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from turnwise.config.document import kind_of
from turnwise.config.entries import AgentEntry, PlacedAgent
from turnwise.config.importing import resolve
from turnwise.config.places import Document, Where
from turnwise.config.tool_entries import AgentReference, read_tools
from turnwise.config.validation import validated
from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import FlowDefinitionError, TurnwiseError
from turnwise.facts.fact import Fact
from turnwise.facts.spelling import did_you_mean
from turnwise.flows.flow import Flow
from turnwise.flows.strategies import Moderated, named_strategy
from turnwise.flows.tasks.graph import Graph
from turnwise.flows.tasks.results import ResultType
from turnwise.flows.tasks.task import Task
from turnwise.flows.until import AllComplete, AnyComplete, AnyFailed, MaxModelCalls, MaxTurns, Until
from turnwise.ports.agent import Agent
from turnwise.ports.selector import Selector
from turnwise.ports.tool import Tool

_TASK_CONDITIONS: Mapping[str, Callable[..., Until]] = {"any_complete": AnyComplete, "any_failed": AnyFailed}
_LIMIT_CONDITIONS: Mapping[str, Callable[[int], Until]] = {"max_turns": MaxTurns, "max_model_calls": MaxModelCalls}
_NAMED_CONDITIONS: Mapping[str, Callable[[], Until]] = {"all_complete": AllComplete, **_TASK_CONDITIONS}
_OPERATORS: Mapping[str, Callable[[Until, Until], Until]] = {"any": or_, "all": and_}
_KEYS = (*_TASK_CONDITIONS, *_LIMIT_CONDITIONS, *_OPERATORS)


def read_until(document: Document, where: Where, value: Any, tasks: Sequence[str] | None) -> Until | None:
    """Reads an `until` condition. Returns None after it reported the problems.

    A condition is `any_failed`, `any_complete` or `all_complete`, or a mapping: `any_failed: [task]`, `max_turns: 20`, or
    `any:` or `all:` with a list of conditions. Of several keys, or of the items of a list, one is enough.

    Args:
        tasks: the names of the flow's tasks; None = not known, so names are not checked.
    """
    if isinstance(value, str):
        if value in _NAMED_CONDITIONS:
            return _NAMED_CONDITIONS[value]()
        document.report(
            where, f"There is no condition {value!r}.", did_you_mean(value, [*_NAMED_CONDITIONS, *_KEYS]), FlowDefinitionError
        )
        return None
    if isinstance(value, list) and value:
        return _combine([read_until(document, (*where, index), each, tasks) for index, each in enumerate(value)], or_)
    if isinstance(value, dict) and value:
        return _combine([_read_keyed_condition(document, (*where, key), key, each, tasks) for key, each in value.items()], or_)
    found = "nothing" if value in ([], {}) else kind_of(value)
    problem = f"A condition is a name, or keys and values; this is {found}."
    document.report(where, problem, "Write `any_failed`, or `max_turns: 20`.", FlowDefinitionError)
    return None


def _read_keyed_condition(document: Document, where: Where, key: str, value: Any, tasks: Sequence[str] | None) -> Until | None:
    if key in _LIMIT_CONDITIONS:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return _LIMIT_CONDITIONS[key](value)
        problem = f"{key!r} should be a whole number of 1 or more."
        document.report(where, problem, f"Write `{key}: 20`, for example.", FlowDefinitionError)
    elif key in _TASK_CONDITIONS:
        return _read_task_condition(document, where, key, value, tasks)
    elif key in _OPERATORS:
        if isinstance(value, list) and value:
            found = [read_until(document, (*where, index), each, tasks) for index, each in enumerate(value)]
            return _combine(found, _OPERATORS[key])
        document.report(where, f"{key!r} should be a list of conditions.", "Write `- ` before each.", FlowDefinitionError)
    else:
        document.report(where, f"There is no condition {key!r}.", did_you_mean(key, _KEYS), FlowDefinitionError)
    return None


def _read_task_condition(document: Document, where: Where, key: str, value: Any, tasks: Sequence[str] | None) -> Until | None:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        problem = f"{key!r} should be a list of tasks, but is {kind_of(value)}."
        document.report(where, problem, f"Write `{key}: [task]`.", FlowDefinitionError)
        return None
    unknown = [(index, name) for index, name in enumerate(names) if tasks is not None and name not in tasks]
    for index, name in unknown:
        at = (*where, index) if isinstance(value, list) else where
        document.report(at, f"There is no task {name!r} to wait for.", did_you_mean(name, tasks or ()), FlowDefinitionError)
    return None if unknown else _TASK_CONDITIONS[key](*names)


def _combine(found: Sequence[Until | None], join: Callable[[Until, Until], Until]) -> Until | None:
    """Joins the conditions into one. Returns None if one is invalid or there are none."""
    conditions = [each for each in found if each is not None]
    return reduce(join, conditions) if conditions and len(conditions) == len(found) else None


_RESULT_FORMS = "Write text, `{labels: [one, other]}`, `{schema: …}`, or the import path of a type, such as `builtins:int`."


class FlowOptions(Fact):
    agents: tuple[str, ...] = ()
    side_by_side: int = Field(default=1, ge=1)
    max_turns: int | None = Field(default=None, ge=1)
    targets: tuple[str, ...] | None = None


class TaskEntry(Fact):
    name: str
    objective: str = ""
    agents: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    parent: str | None = None
    interactive: bool = False
    run_if: Literal["success", "always"] = "success"


class _ParsedTask(NamedTuple):
    """A task as read from the file, with its result type and tools built."""

    where: Where
    entry: TaskEntry
    result: Any
    tools: Sequence[Tool]

    def task(self, agents: Mapping[str, Agent]) -> Task:
        """Builds the task. Agents below the flow are passed as objects, all others by name."""
        entry = {name: getattr(self.entry, name) for name in TaskEntry.model_fields if name not in {"name", "agents"}}
        doers = [agents.get(name, name) for name in self.entry.agents]
        return Task(self.entry.name, agents=doers, result=self.result, tools=self.tools, **entry)


class FlowRecipe:
    """A validated entry of kind `flow`. Builds the flow once its card and children are known."""

    purpose = "to work in the flow"

    def __init__(
        self, where: Where, options: FlowOptions, tasks: Sequence[_ParsedTask], strategy: Selector | None, until: Until | None
    ) -> None:
        self._where, self._options, self._tasks = where, options, tasks
        self._strategy, self._until = strategy, until

    @property
    def referenced_agents(self) -> Sequence[AgentReference]:
        """The agents that the flow names, with their locations."""
        own = [AgentReference(name, None, (*self._where, "agents", index)) for index, name in enumerate(self._options.agents)]
        theirs = [
            AgentReference(name, None, (*task.where, "agents", index))
            for task in self._tasks
            for index, name in enumerate(task.entry.agents)
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
        doers = [below.get(name, name) for name in self._options.agents] if self._options.agents else list(children)
        flow = Flow(
            card.name,
            [task.task(below) for task in self._tasks],
            agents=doers,
            strategy=self._strategy,
            until=self._until,
            side_by_side=self._options.side_by_side,
            max_turns=self._options.max_turns,
            targets=self._options.targets,
            description=card.description,
            **fields,
        )
        idle = [child for child in children if child not in flow.children]
        return PlacedAgent(flow, flow.card, idle) if idle else flow

    def try_out(self, document: Document, card: AgentCard) -> bool:
        """Always True: the remaining checks need the children."""
        return True


def read_flow(document: Document, entry: AgentEntry) -> FlowRecipe | None:
    """Reads an entry of kind `flow` and imports the modules it names. Returns None after it reported the problems."""
    before = len(document.problems)
    own, where = entry.own, entry.where
    plain = {key: value for key, value in own.items() if key in FlowOptions.model_fields}
    options = validated(document, where, FlowOptions, plain, FlowDefinitionError)
    tasks = _read_tasks(document, (*where, "tasks"), own.get("tasks"))
    strategy = _read_strategy(document, (*where, "strategy"), own["strategy"]) if "strategy" in own else None
    names = [task.entry.name for task in tasks]
    known = names if len(document.problems) == before else None
    until = read_until(document, (*where, "until"), own["until"], known) if "until" in own else None
    if options is None or len(document.problems) > before:
        return None
    for index, target in enumerate(options.targets or ()):
        _report_unknown(document, (*where, "targets", index), target, names, "for the target")
    if len(document.problems) == before:
        _report_cycles(document, str(entry.card.get("name")), tasks)
    return FlowRecipe(where, options, tasks, strategy, until) if len(document.problems) == before else None


def _read_tasks(document: Document, where: Where, value: Any) -> list[_ParsedTask]:
    if not isinstance(value, list):
        document.report(where, f"'tasks' should be a list, but is {kind_of(value)}.", "Write `- ` before each task.")
        return []
    if not value:
        document.report(where, "The flow has no tasks.", "Write at least one, such as `- name: a`.", FlowDefinitionError)
    before = len(document.problems)
    found = [_read_task(document, (*where, index), each) for index, each in enumerate(value)]
    tasks = [task for task in found if task is not None]
    if len(document.problems) == before:
        _report_wrong_names(document, tasks)
    return tasks


def _read_task(document: Document, where: Where, value: Any) -> _ParsedTask | None:
    if not isinstance(value, dict):
        fix = "Write `name:`, and what is to be done as `objective:`."
        document.report(where, f"A task is keys and values; this is {kind_of(value)}.", fix, FlowDefinitionError)
        return None
    before = len(document.problems)
    for key in value:
        if key not in (known := [*TaskEntry.model_fields, "result", "tools"]):
            document.report((*where, key), f"A task has no key {key!r}.", did_you_mean(key, known), FlowDefinitionError)
    fields = {key: each for key, each in value.items() if key in TaskEntry.model_fields}
    entry = validated(document, where, TaskEntry, fields, FlowDefinitionError)
    result = _read_result(document, (*where, "result"), value.get("result", "text"), str(value.get("name")))
    tools = _read_task_tools(document, (*where, "tools"), value.get("tools", []))
    if entry is None or len(document.problems) > before:
        return None
    written = _ParsedTask(where, entry, result, tools)
    try:
        written.task({})
    except TurnwiseError as error:
        document.report_error(where, error)
    return written


def _read_result(document: Document, where: Where, value: Any, task: str) -> Any:
    """Returns the task's result type as `Task` accepts it; reports an invalid one."""
    kind: Any = str
    try:
        if value != "text":
            kind = _result_type(value, document.folder)
        ResultType(kind, task)
    except TurnwiseError as error:
        document.report_error(where, error)
    return kind


def _result_type(value: Any, folder: Path) -> Any:
    if isinstance(value, str) and ":" in value:
        return resolve(value, folder)
    match value:
        case {"labels": list(kind)} | {"schema": dict(kind)} if len(value) == 1:
            return kind
    raise FlowDefinitionError("This is no kind of result.", fix=_RESULT_FORMS)


def _read_task_tools(document: Document, where: Where, value: Any) -> list[Tool]:
    found: Sequence[Any] = read_tools(document, where, value) or []
    tools: list[Tool] = []
    for index, tool in enumerate(found):
        if hasattr(tool, "spec"):
            tools.append(tool)
        else:
            problem = "A task takes single tools, no other agents and no sets of tools."
            document.report((*where, index), problem, "Give it to an agent of the task.", FlowDefinitionError)
    return tools


def _read_strategy(document: Document, where: Where, value: Any) -> Selector | None:
    if not isinstance(value, str | dict):
        problem = f"'strategy' should be a name or keys and values, but is {kind_of(value)}."
        document.report(where, problem, "Write `strategy: popcorn`.", FlowDefinitionError)
        return None
    try:
        return named_strategy(value)
    except TurnwiseError as error:
        document.report_error(where, error)
        return None


def _report_wrong_names(document: Document, tasks: Sequence[_ParsedTask]) -> None:
    """Reports duplicate task names, and dependencies and parents that do not exist."""
    known: dict[str, _ParsedTask] = {}
    for task in tasks:
        first = known.setdefault(task.entry.name, task)
        if first is not task:
            line = document.line(first.where)
            problem = f"Two tasks are named {task.entry.name!r}: this one and the one in line {line}."
            document.report((*task.where, "name"), problem, "Rename one of them.", FlowDefinitionError)
    for task in tasks:
        for where, name, role in _references(task):
            _report_unknown(document, where, name, list(known), role)


def _references(task: _ParsedTask) -> Iterator[tuple[Where, str, str]]:
    for index, name in enumerate(task.entry.depends_on):
        yield (*task.where, "depends_on", index), name, f"on which {task.entry.name!r} depends"
    if task.entry.parent is not None:
        yield (*task.where, "parent"), task.entry.parent, f"to be the parent of {task.entry.name!r}"


def _report_unknown(document: Document, where: Where, name: str, known: Sequence[str], role: str) -> None:
    if name not in known:
        document.report(where, f"There is no task {name!r} {role}.", did_you_mean(name, known), FlowDefinitionError)


def _report_cycles(document: Document, flow: str, tasks: Sequence[_ParsedTask]) -> None:
    """Reports the graph's error at the first task that the error names."""
    try:
        Graph(flow, [task.task({}) for task in tasks])
    except FlowDefinitionError as error:
        told = error.problem.removeprefix(f"The flow {flow!r}")
        named = [(told.find(repr(task.entry.name)), task.where) for task in tasks]
        first = min((place for place in named if place[0] >= 0), default=(0, tasks[0].where if tasks else ()))
        document.report_error(first[1], error)
