"""Conditions that end a flow's run (behaviour D11); they compose with `|` and `&`. Pure functions of the run's state."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from turnwise.facts.errors import FlowDefinitionError
from turnwise.flows.argument_checks import check_object, check_positive
from turnwise.flows.tasks import Graph, Progress, Status, Task, task_name


class RunCounts(NamedTuple):
    """The state of a flow's run."""

    graph: Graph
    progress: Progress
    turns: int
    """The number of turns that were started."""
    model_calls: int
    """The number of model calls in these turns."""


class Until(ABC):
    """A condition that ends a flow's run.

    `a | b` is met if one of them is; the reason is that of the first. `a & b` is met if both are; the reason is their
    common one, or `until` if they differ.
    """

    tasks: tuple[str, ...] = ()
    """The names of the tasks that the condition uses."""

    @abstractmethod
    def met(self, counts: RunCounts) -> str | None:
        """Returns the reason why the run is over, in one word; None if it continues."""

    def check(self, graph: Graph) -> None:
        """Raises FlowDefinitionError if the condition uses a task that the graph does not have."""
        for name in self.tasks:
            graph.check(name)

    def __or__(self, other: "Until") -> "Until":
        return _Either(self, other)

    def __and__(self, other: "Until") -> "Until":
        return _Both(self, other)


class _Pair(Until):
    def __init__(self, left: Until, right: Until) -> None:
        self._left, self._right = (
            left,
            check_object(repr(left), "what it is joined with", right, ("met", "check"), "AnyFailed()"),
        )
        self.tasks = (*left.tasks, *right.tasks)


class _Either(_Pair):
    def __repr__(self) -> str:
        return f"({self._left!r} | {self._right!r})"

    def met(self, counts: RunCounts) -> str | None:
        return self._left.met(counts) or self._right.met(counts)


class _Both(_Pair):
    def __repr__(self) -> str:
        return f"({self._left!r} & {self._right!r})"

    def met(self, counts: RunCounts) -> str | None:
        left, right = self._left.met(counts), self._right.met(counts)
        if left is None or right is None:
            return None
        return left if left == right else "until"


class AllComplete(Until):
    """Met when every task has ended, with any status. The reason is `complete`."""

    def __repr__(self) -> str:
        return "AllComplete()"

    def met(self, counts: RunCounts) -> str | None:
        return "complete" if counts.progress.is_complete else None


class _OfTasks(Until):
    def __init__(self, *tasks: Task | str, at_least: int = 1) -> None:
        self.tasks = tuple(task_name(type(self).__name__, task) for task in tasks)
        self._at_least = check_positive(type(self).__name__, "at_least", at_least)

    def __repr__(self) -> str:
        number = [f"at_least={self._at_least}"] if self._at_least > 1 else []
        return f"{type(self).__name__}({', '.join([*map(repr, self.tasks), *number])})"

    def check(self, graph: Graph) -> None:
        super().check(graph)
        if self._at_least > (count := len(set(self.tasks) or graph.tasks)):
            problem = f"{self!r} can never be met: it counts {count} task{'' if count == 1 else 's'}."
            raise FlowDefinitionError(problem, fix="Lower at_least, or name more tasks.")

    def _end_statuses(self, progress: Progress) -> list[Status]:
        names = dict.fromkeys(self.tasks) or progress.task_ends
        return [progress.task_ends[name].status for name in names if name in progress.task_ends]


class AnyComplete(_OfTasks):
    """Met when `at_least` of these tasks have ended, with any status; without names, of all tasks. The reason is `complete`."""

    def met(self, counts: RunCounts) -> str | None:
        return "complete" if len(self._end_statuses(counts.progress)) >= self._at_least else None


class AnyFailed(_OfTasks):
    """Met when `at_least` of these tasks failed; without names, of all tasks. The reason is `failed`."""

    def met(self, counts: RunCounts) -> str | None:
        return "failed" if self._end_statuses(counts.progress).count(Status.FAILED) >= self._at_least else None


class _AtMost(Until):
    def __init__(self, most: int) -> None:
        self._limit = check_positive(type(self).__name__, "its number", most)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._limit})"


class MaxTurns(_AtMost):
    """Met when that number of turns was started. The reason is `limit:turns`."""

    def met(self, counts: RunCounts) -> str | None:
        return "limit:turns" if counts.turns >= self._limit else None


class MaxModelCalls(_AtMost):
    """Met when that number of model calls was made. The reason is `limit:model_calls`."""

    def met(self, counts: RunCounts) -> str | None:
        return "limit:model_calls" if counts.model_calls >= self._limit else None
