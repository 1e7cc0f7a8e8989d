"""The dependency graph of a flow's tasks, with a topological order (behaviours D1, D3, D10)."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress

from turnwise.facts.errors import FlowDefinitionError
from turnwise.facts.hints import did_you_mean
from turnwise.flows.argument_checks import kind_of
from turnwise.flows.tasks.task import Task

MOST_TASKS = 10_000
_DIGIT_TO_BYTE = bytes.maketrans(b"01", b"\0\1")


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
