"""The tasks of a flow as a graph: what each needs, and in which order they can be done (behaviours D1, D3, D10)."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress

from turnwise.facts.errors import FlowDefinitionError
from turnwise.facts.spelling import did_you_mean
from turnwise.flows.arguments import kind_of
from turnwise.flows.tasks.task import Task

MOST_TASKS = 10_000
_AS_TRUTH = bytes.maketrans(b"01", b"\0\1")


class Graph:
    """All tasks of a flow, checked. It never changes, and says the same in every process.

    tasks: by name, as they were created. order: all names, what a task needs before it, ties as created. place: each name's
    place in the order. needs: what has to be complete before each: what it depends on, then its subtasks; needed_by: the
    reverse. finals: those that nobody needs, in the order.

    FlowDefinitionError for no tasks or too many, two of one name, a dependency or parent that is not there, a task below
    itself, and a cycle, which is named as a whole.
    """

    def __init__(self, flow: str, tasks: Sequence[Task]) -> None:
        self.flow = flow
        self.tasks: Mapping[str, Task] = self._named(tasks)
        self._check_names()
        self._check_parents()
        self.needs: Mapping[str, tuple[str, ...]] = _needs(self.tasks)
        self.needed_by: Mapping[str, tuple[str, ...]] = _reversed(self.needs)
        self.order: tuple[str, ...] = self._ordered()
        self.place: Mapping[str, int] = {name: number for number, name in enumerate(self.order)}
        self.finals: tuple[str, ...] = tuple(name for name in self.order if not self.needed_by[name])
        self._upstream = self._bits()

    def upstream(self, names: Iterable[str]) -> frozenset[str]:
        """These tasks and all that they need, and what that needs. FlowDefinitionError for a name that is not there."""
        return frozenset(compress(self.order, self.marked(names)))

    def marked(self, names: Iterable[str]) -> bytes:
        """The same as marks: for each task of the order, up to the last that is meant, 1 when it is and 0 when it is not."""
        bits = 0
        for name in names:
            self.check(name)
            bits |= self._upstream[name]
        # The lowest bit is the first task of the order.
        return f"{bits:b}"[::-1].encode().translate(_AS_TRUTH)

    def check(self, name: str) -> None:
        """FlowDefinitionError when there is no task of that name; it says which was probably meant."""
        if name not in self.tasks:
            self._reject_unknown(name)

    def _named(self, tasks: Sequence[Task]) -> dict[str, Task]:
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
        for task in self.tasks.values():
            for name in task.depends_on:
                if name not in self.tasks:
                    self._reject_unknown(name, f", on which {task.name!r} depends")
            if task.parent is not None and task.parent not in self.tasks:
                self._reject_unknown(task.parent, f", the parent of {task.name!r}")

    def _check_parents(self) -> None:
        settled: set[str] = set()
        for start in self.tasks:
            above: dict[str, None] = {}
            name: str | None = start
            while name is not None and name not in settled:
                if name in above:
                    self._reject(f"has a task below itself: {_around(_cycle(above, name), 'is below')}", "Change a parent.")
                above[name] = None
                name = self.tasks[name].parent
            settled.update(above)

    def _ordered(self) -> tuple[str, ...]:
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

    def _bits(self) -> dict[str, int]:
        """What is upstream of each task, a bit for every place in the order: sets would take too much room and time."""
        bits: dict[str, int] = {}
        for name in self.order:
            bits[name] = 1 << self.place[name]
            for need in self.needs[name]:
                bits[name] |= bits[need]
        return bits

    def _reject_cycle(self, left: set[str]) -> None:
        """left: the tasks that were never free. Each needs another of them, so who follows the needs comes to a cycle."""
        name = next(each for each in self.tasks if each in left)
        path: dict[str, None] = {}
        while name not in path:
            path[name] = None
            name = next(need for need in self.needs[name] if need in left)
        cycle = _around(_cycle(path, name), "needs")
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
    found: dict[str, list[str]] = {name: [] for name in needs}
    for name, each in needs.items():
        for need in each:
            found[need].append(name)
    return {name: tuple(each) for name, each in found.items()}


def _cycle(path: Iterable[str], name: str) -> list[str]:
    """The path from where it was at that name first, and the name again."""
    passed = list(path)
    return [*passed[passed.index(name) :], name]


def _around(cycle: Sequence[str], verb: str) -> str:
    return f" {verb} ".join(map(repr, cycle))
