"""The progress of a flow: ended and ready tasks (behaviours D1, D2). Pure and immutable."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, JsonValue

from turnwise.facts.fact import Fact
from turnwise.flows.tasks.graph import Graph
from turnwise.flows.tasks.task import Status


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


def _skip_reason(task_end: TaskEnd) -> str:
    what = "failed" if task_end.status is Status.FAILED else "was skipped"
    return f"{task_end.task!r} {what}{f': {task_end.reason}' if task_end.reason else '.'}"


def _ready(graph: Graph, ready: tuple[str, ...], ended: str, freed: list[str]) -> tuple[str, ...]:
    """Returns the ready tasks after that task ended and the tasks in `freed` became ready."""
    place = graph.place.__getitem__
    at = bisect_left(ready, place(ended), key=place)
    left = ready[:at] + ready[at + 1 :] if ready[at : at + 1] == (ended,) else ready
    return tuple(sorted((*left, *freed), key=place)) if freed else left
