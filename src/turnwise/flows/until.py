"""When a flow's run is over (behaviour D11): conditions that compose with `|` and `&`. Pure."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from turnwise.flows.arguments import at_least_one, check_object
from turnwise.flows.tasks.graph import Graph
from turnwise.flows.tasks.progress import Progress
from turnwise.flows.tasks.task import Status, Task, task_name


class RunCounts(NamedTuple):
    """Where a run of a flow stands. turns: how many were begun; model_calls: how many requests to models they made."""

    graph: Graph
    progress: Progress
    turns: int
    model_calls: int


class Until(ABC):
    """A condition. `a | b` is met when one of them is, and says what the first of them says; `a & b` when both are, and says
    what both say, or `until` when that is not the same.
    """

    tasks: tuple[str, ...] = ()
    """The names of the tasks that it asks for."""

    @abstractmethod
    def met(self, standing: RunCounts) -> str | None:
        """Why the run is over, in one word; None when it is not."""

    def check(self, graph: Graph) -> None:
        """FlowDefinitionError when it asks for a task that the graph has not."""
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

    def met(self, standing: RunCounts) -> str | None:
        return self._left.met(standing) or self._right.met(standing)


class _Both(_Pair):
    def __repr__(self) -> str:
        return f"({self._left!r} & {self._right!r})"

    def met(self, standing: RunCounts) -> str | None:
        left, right = self._left.met(standing), self._right.met(standing)
        if left is None or right is None:
            return None
        return left if left == right else "until"


class AllComplete(Until):
    """Every task has its end, whichever. Says `complete`."""

    def __repr__(self) -> str:
        return "AllComplete()"

    def met(self, standing: RunCounts) -> str | None:
        return "complete" if standing.progress.is_complete else None


class _OfTasks(Until):
    def __init__(self, *tasks: Task | str) -> None:
        self.tasks = tuple(task_name(type(self).__name__, task) for task in tasks)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.tasks))})"

    def _closed(self, progress: Progress) -> list[Status]:
        names = self.tasks or progress.closings
        return [progress.closings[name].status for name in names if name in progress.closings]


class AnyComplete(_OfTasks):
    """One of these tasks has its end, whichever; of all tasks, when none are named. Says `complete`."""

    def met(self, standing: RunCounts) -> str | None:
        return "complete" if self._closed(standing.progress) else None


class AnyFailed(_OfTasks):
    """One of these tasks failed; of all tasks, when none are named. Says `failed`."""

    def met(self, standing: RunCounts) -> str | None:
        return "failed" if Status.FAILED in self._closed(standing.progress) else None


class _AtMost(Until):
    def __init__(self, most: int) -> None:
        self._most = at_least_one(type(self).__name__, "its number", most)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._most})"


class MaxTurns(_AtMost):
    """So many turns were begun. Says `limit:turns`."""

    def met(self, standing: RunCounts) -> str | None:
        return "limit:turns" if standing.turns >= self._most else None


class MaxModelCalls(_AtMost):
    """So many requests to models were made. Says `limit:model_calls`."""

    def met(self, standing: RunCounts) -> str | None:
        return "limit:model_calls" if standing.model_calls >= self._most else None
