"""Tasks of a flow: their definition, the graph of their dependencies, and their progress (behaviours D1, D2, D3, D10).

Values and pure functions; all but the definition is immutable.
"""

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import compress
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args

from pydantic import AfterValidator, JsonValue

from turnwise.facts.errors import FlowDefinitionError
from turnwise.facts.fact import Fact
from turnwise.facts.hints import did_you_mean
from turnwise.facts.tree import NAME_CHARACTERS, check_name
from turnwise.flows.argument_checks import agent_name, as_tuple, check_bool, check_text, kind_capitalized, kind_of
from turnwise.flows.result_types import ResultType
from turnwise.ports.agent import Agent
from turnwise.ports.tool import Tool
from turnwise.tools.function import FunctionTool

RunIf = Literal["success", "always"]

MOST_TASKS = 10_000
_DIGIT_TO_BYTE = bytes.maketrans(b"01", b"\0\1")


class Status(StrEnum):
    """The status of a task. The last three are final."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESSFUL = "successful"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def is_complete(self) -> bool:
        return self not in (Status.PENDING, Status.RUNNING)

    @property
    def is_success(self) -> bool:
        return self is Status.SUCCESSFUL


class Task:
    """Work to be done in a flow, with a result. It keeps no state of a run, so one task may be in several flows.

    Args:
        name: Unique in its flow.
        objective: The work, in words for the agent that does it.
        agents: The agents that may do it, as objects or names; none means any agent of the flow.
        depends_on: Tasks that must be complete before, as objects or names.
        parent: The task that this one is a part of. The parent is ready when all its parts are complete.
        result: The type of the result; see `ResultType`.
        tools: Tools for a model that works on the task, besides its agent's own.
        interactive: Allows questions to the user.
        run_if: With `success`, the task is skipped if a task that it needs fails or is skipped. With `always`, it runs
            anyway.

    Raises:
        FlowDefinitionError: A value is not valid.
        ConfigError: A function cannot be a tool.
    """

    def __init__(
        self,
        name: str,
        objective: str = "",
        *,
        agents: Sequence[Agent | str] = (),
        depends_on: Sequence[Union["Task", str]] = (),
        parent: Union["Task", str, None] = None,
        result: Any = str,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        interactive: bool = False,
        run_if: RunIf = "success",
    ) -> None:
        _check_name(name)
        if run_if not in get_args(RunIf):
            raise FlowDefinitionError(f"Task {name!r}: run_if is {run_if!r}.", fix="Use 'success' or 'always'.")
        owner = f"Task {name!r}"
        self.name: Final = name
        self.objective: Final = check_text(
            owner, "its objective", objective, instead="Give a text; agents stand in agents=[…]."
        )
        self.agents: Final[tuple[Agent | str, ...]] = as_tuple(owner, "agents", agents)
        self.agent_names: Final = tuple(agent_name(owner, agent) for agent in self.agents)
        self.depends_on: Final = tuple(
            dict.fromkeys(task_name(owner, each) for each in as_tuple(owner, "depends_on", depends_on))
        )
        self.parent: Final = None if parent is None else task_name(owner, parent)
        self.result: Final = ResultType(result, name)
        self.tools: Final[tuple[Tool, ...]] = tuple(_tool(owner, each) for each in as_tuple(owner, "tools", tools))
        self.interactive: Final = check_bool(owner, "interactive", interactive)
        self.run_if: Final[RunIf] = run_if
        _check_distinct(owner, "agents", self.agent_names)
        _check_distinct(owner, "tools", [tool.spec.name for tool in self.tools])

    def __repr__(self) -> str:
        return f"Task({self.name!r})"


def task_name(owner: str, given: Task | str) -> str:
    """Returns the name of a task given as an object or by its name. Raises FlowDefinitionError for other values."""
    if isinstance(given, Task):
        return given.name
    if isinstance(given, str):
        return given
    raise FlowDefinitionError(f"{owner}: {kind_of(given)} is no task.", fix="Give tasks, or their names.")


class Graph:
    """All tasks of a flow, checked. It is immutable and the same in every process.

    Attributes:
        tasks: The tasks by name, in the order of their creation.
        order: All names in topological order; ties in the order of creation.
        place: The position of each name in `order`.
        needs: The tasks that must be complete before each task: its dependencies, then its subtasks.
        needed_by: The reverse of `needs`.
        finals: The tasks that no other needs, in `order`.

    Raises:
        FlowDefinitionError: There are no tasks or too many, two have one name, a dependency or parent does not exist, a
            task is below itself, or there is a cycle, which the message shows.
    """

    def __init__(self, flow: str, tasks: Sequence[Task]) -> None:
        self.flow = flow
        self.tasks: Mapping[str, Task] = self._by_name(tasks)
        self._check_names()
        self._check_parents()
        self.needs: Mapping[str, tuple[str, ...]] = _needs(self.tasks)
        self.needed_by: Mapping[str, tuple[str, ...]] = _reversed(self.needs)
        self.order: tuple[str, ...] = self._topological_order()
        self.place: Mapping[str, int] = {name: number for number, name in enumerate(self.order)}
        self.finals: tuple[str, ...] = tuple(name for name in self.order if not self.needed_by[name])
        self._upstream = self._upstream_masks()

    def upstream(self, names: Iterable[str]) -> frozenset[str]:
        """Returns these tasks and all that they need, directly or indirectly. Raises FlowDefinitionError for an unknown
        name.
        """
        return frozenset(compress(self.order, self.marked(names)))

    def marked(self, names: Iterable[str]) -> bytes:
        """Returns the same set as marks in the order's positions: 1 for members, 0 for others, up to the last member."""
        bits = 0
        for name in names:
            self.check(name)
            bits |= self._upstream[name]
        # The lowest bit is the first task of the order.
        return f"{bits:b}"[::-1].encode().translate(_DIGIT_TO_BYTE)

    def check(self, name: str) -> None:
        """Raises FlowDefinitionError if there is no task of that name; the fix suggests similar names."""
        if name not in self.tasks:
            self._reject_unknown(name)

    def _by_name(self, tasks: Sequence[Task]) -> dict[str, Task]:
        """Returns the tasks by name. Raises FlowDefinitionError for none, too many, or repeated names."""
        if not tasks:
            self._reject("has no tasks", "Give it at least one.")
        if len(tasks) > MOST_TASKS:
            self._reject(f"has {len(tasks):,} tasks, {MOST_TASKS:,} are allowed", "Make several flows of it.")
        named: dict[str, Task] = {}
        for task in tasks:
            if not isinstance(task, Task):
                self._reject(f"has {kind_of(task)} among its tasks", "Give Tasks.")
            if task.name in named:
                self._reject(f"has two tasks named {task.name!r}", "Rename one of them.")
            named[task.name] = task
        return named

    def _check_names(self) -> None:
        """Raises FlowDefinitionError for a dependency or parent that does not exist."""
        for task in self.tasks.values():
            for name in task.depends_on:
                if name not in self.tasks:
                    self._reject_unknown(name, f", on which {task.name!r} depends")
            if task.parent is not None and task.parent not in self.tasks:
                self._reject_unknown(task.parent, f", the parent of {task.name!r}")

    def _check_parents(self) -> None:
        """Raises FlowDefinitionError for a task below itself."""
        settled: set[str] = set()
        for start in self.tasks:
            above: dict[str, None] = {}
            name: str | None = start
            while name is not None and name not in settled:
                if name in above:
                    self._reject(f"has a task below itself: {_chain_text(_cycle(above, name), 'is below')}", "Change a parent.")
                above[name] = None
                name = self.tasks[name].parent
            settled.update(above)

    def _topological_order(self) -> tuple[str, ...]:
        """Returns the tasks' names, dependencies first, else as created. Raises FlowDefinitionError for a cycle."""
        created = {name: number for number, name in enumerate(self.tasks)}
        names = tuple(self.tasks)
        missing = {name: len(needs) for name, needs in self.needs.items()}
        free = [created[name] for name, count in missing.items() if not count]
        order: list[str] = []
        while free:
            name = names[heapq.heappop(free)]
            order.append(name)
            for dependent in self.needed_by[name]:
                missing[dependent] -= 1
                if not missing[dependent]:
                    heapq.heappush(free, created[dependent])
        if len(order) < len(names):
            self._reject_cycle({name for name, count in missing.items() if count})
        return tuple(order)

    def _upstream_masks(self) -> dict[str, int]:
        """Returns the upstream set of each task as a bit mask; sets would need too much memory and time."""
        bits: dict[str, int] = {}
        for name in self.order:
            bits[name] = 1 << self.place[name]
            for need in self.needs[name]:
                bits[name] |= bits[need]
        return bits

    def _reject_cycle(self, left: set[str]) -> None:
        """Raises the error for a cycle.

        `left` holds the tasks that never became free. Each needs another of them, so following the needs finds a cycle.
        """
        name = next(each for each in self.tasks if each in left)
        path: dict[str, None] = {}
        while name not in path:
            path[name] = None
            name = next(need for need in self.needs[name] if need in left)
        cycle = _chain_text(_cycle(path, name), "needs")
        self._reject(f"has a cycle: {cycle}", "Take one of these away; a task needs its subtasks, too.")

    def _reject_unknown(self, name: str, role: str = "") -> None:
        self._reject(f"has no task {name[:64]!r}{role}", did_you_mean(name, self.tasks))

    def _reject(self, problem: str, fix: str) -> None:
        raise FlowDefinitionError(f"The flow {self.flow!r} {problem}.", fix=fix)


def _check_complete(status: Status) -> Status:
    if not status.is_complete:
        raise ValueError(f"A task that is {status} has not ended.")
    return status


class TaskEnd(Fact):
    """The end of a task."""

    task: str
    status: Annotated[Status, AfterValidator(_check_complete)]
    """Successful, failed or skipped."""
    result: JsonValue = None
    reason: str = ""
    by: str = ""
    """The agent that ended it; empty if it was skipped automatically."""
    turn: int = 0
    """The number of the flow's turn, from 1; 0 if there is none."""


class Progress(NamedTuple):
    """The state of a flow's tasks."""

    statuses: Mapping[str, Status]
    """The status of every task to be done."""
    task_ends: Mapping[str, TaskEnd]
    """The ends of tasks, in the order in which they ended."""
    missing: Mapping[str, int]
    """The number of incomplete needs of each task."""
    ready: tuple[str, ...]
    """Pending tasks whose needs are complete, in the graph's order."""

    @property
    def is_complete(self) -> bool:
        """True if every task has ended."""
        return len(self.task_ends) == len(self.statuses)


def initial_progress(graph: Graph, targets: Iterable[str] | None = None) -> Progress:
    """Returns the progress at the start.

    Args:
        graph: The tasks.
        targets: Only these tasks and all upstream of them are done; None means all.

    Raises:
        FlowDefinitionError: A target does not exist.
    """
    wanted = graph.tasks.keys() if targets is None else graph.upstream(targets)
    names = [name for name in graph.order if name in wanted]
    missing = {name: len(graph.needs[name]) for name in names}
    return Progress(dict.fromkeys(names, Status.PENDING), {}, missing, tuple(name for name in names if not missing[name]))


def with_task_ended(graph: Graph, progress: Progress, task_end: TaskEnd) -> Progress:
    """Returns the progress after that task ended.

    If it failed or was skipped, the tasks that need it are skipped with that reason, recursively, unless they run
    always. An end of a task that has ended, or that is not to be done, changes nothing.
    """
    if task_end.task not in progress.statuses or task_end.task in progress.task_ends:
        return progress
    statuses, task_ends, missing = dict(progress.statuses), dict(progress.task_ends), dict(progress.missing)
    reason = "" if task_end.status.is_success else _skip_reason(task_end)
    freed: list[str] = []
    queue = [task_end]
    for each in queue:
        statuses[each.task], task_ends[each.task] = each.status, each
        for name in graph.needed_by[each.task]:
            if name not in missing:
                continue
            missing[name] -= 1
            if statuses[name].is_complete:
                continue
            if not each.status.is_success and graph.tasks[name].run_if == "success":
                statuses[name] = Status.SKIPPED
                queue.append(TaskEnd(task=name, status=Status.SKIPPED, reason=reason, turn=task_end.turn))
            elif not missing[name]:
                freed.append(name)
    return Progress(statuses, task_ends, missing, _ready(graph, progress.ready, task_end.task, freed))


def _check_name(name: object) -> None:
    """Raises FlowDefinitionError for an invalid task name."""
    try:
        if not isinstance(name, str):
            raise ValueError
        check_name(name)
    except ValueError:
        shown = repr(name[:NAME_CHARACTERS]) if isinstance(name, str) else kind_capitalized(name)
        raise FlowDefinitionError(
            f"{shown} cannot be a task's name.",
            fix=f"Use 1 to {NAME_CHARACTERS} printable characters without space at the ends, and not 'user'.",
        ) from None


def _tool(owner: str, given: Any) -> Tool:
    """Returns a tool, made of a function if necessary. Raises FlowDefinitionError."""
    if hasattr(given, "spec") and hasattr(given, "rules"):
        tool: Tool = given
        return tool
    if callable(given) and not hasattr(given, "card"):
        return FunctionTool(given)
    raise FlowDefinitionError(f"{owner}: {kind_of(given)} is no tool.", fix="Give tools, or functions.")


def _check_distinct(owner: str, field: str, names: Sequence[str]) -> None:
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise FlowDefinitionError(f"{owner} has two {field} named {twice[0]!r}.", fix="Take one away, or rename it.")


def _needs(tasks: Mapping[str, Task]) -> dict[str, tuple[str, ...]]:
    needs: dict[str, dict[str, None]] = {name: dict.fromkeys(task.depends_on) for name, task in tasks.items()}
    for name, task in tasks.items():
        if task.parent is not None:
            needs[task.parent][name] = None
    return {name: tuple(each) for name, each in needs.items()}


def _reversed(needs: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    dependents: dict[str, list[str]] = {name: [] for name in needs}
    for name, each in needs.items():
        for need in each:
            dependents[need].append(name)
    return {name: tuple(each) for name, each in dependents.items()}


def _cycle(path: Iterable[str], name: str) -> list[str]:
    """Returns the part of the path from the first occurrence of the name, closed with the name."""
    passed = list(path)
    return [*passed[passed.index(name) :], name]


def _chain_text(cycle: Sequence[str], verb: str) -> str:
    return f" {verb} ".join(map(repr, cycle))


def _skip_reason(task_end: TaskEnd) -> str:
    what = "failed" if task_end.status is Status.FAILED else "was skipped"
    return f"{task_end.task!r} {what}{f': {task_end.reason}' if task_end.reason else '.'}"


def _ready(graph: Graph, ready: tuple[str, ...], ended: str, freed: list[str]) -> tuple[str, ...]:
    """Returns the ready tasks after that task ended and the tasks in `freed` became ready."""
    place = graph.place.__getitem__
    at = bisect_left(ready, place(ended), key=place)
    left = ready[:at] + ready[at + 1 :] if ready[at : at + 1] == (ended,) else ready
    return tuple(sorted((*left, *freed), key=place)) if freed else left
