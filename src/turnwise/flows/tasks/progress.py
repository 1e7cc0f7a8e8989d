"""How far a flow has come: which tasks ended, and which are ready (behaviours D1, D2). Pure, and nothing changes in place."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, JsonValue

from turnwise.facts.fact import Fact
from turnwise.flows.tasks.graph import Graph
from turnwise.flows.tasks.task import Status


def _complete(status: Status) -> Status:
    if not status.is_complete:
        raise ValueError(f"A task that is {status} has not ended.")
    return status


class TaskEnd(Fact):
    """That a task came to its end. status: successful, failed or skipped. by: the agent that ended it; empty = it was skipped
    by itself. turn: in which turn of the flow, from 1; 0 = in none.
    """

    task: str
    status: Annotated[Status, AfterValidator(_complete)]
    result: JsonValue = None
    reason: str = ""
    by: str = ""
    turn: int = 0


class Progress(NamedTuple):
    """statuses: of every task that is to be done. closings: of those that ended, in the order in which they did. missing: how
    many of its needs are not complete, by task. ready: pending tasks whose needs are complete, in the graph's order.
    """

    statuses: Mapping[str, Status]
    closings: Mapping[str, TaskEnd]
    missing: Mapping[str, int]
    ready: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every task came to its end."""
        return len(self.closings) == len(self.statuses)


def initial_progress(graph: Graph, targets: Iterable[str] | None = None) -> Progress:
    """Where a flow begins. targets: only these are to be done, and what they need; None = everything.

    FlowDefinitionError for a target that is not there.
    """
    wanted = graph.tasks.keys() if targets is None else graph.upstream(targets)
    names = [name for name in graph.order if name in wanted]
    missing = {name: len(graph.needs[name]) for name in names}
    return Progress(dict.fromkeys(names, Status.PENDING), {}, missing, tuple(name for name in names if not missing[name]))


def with_task_ended(graph: Graph, progress: Progress, closing: TaskEnd) -> Progress:
    """What it is once that task has ended.

    Who needs one that failed or was skipped is skipped, with that reason, and so on, unless it is to be done always. An end
    that is known already changes nothing; nor does a second one of the task, or one of a task that is not to be done.
    """
    if closing.task not in progress.statuses or closing.task in progress.closings:
        return progress
    statuses, closings, missing = dict(progress.statuses), dict(progress.closings), dict(progress.missing)
    reason = "" if closing.status.is_success else _because(closing)
    freed: list[str] = []
    left = [closing]
    for each in left:
        statuses[each.task], closings[each.task] = each.status, each
        for name in graph.needed_by[each.task]:
            if name not in missing:
                continue
            missing[name] -= 1
            if statuses[name].is_complete:
                continue
            if not each.status.is_success and graph.tasks[name].run_if == "success":
                statuses[name] = Status.SKIPPED
                left.append(TaskEnd(task=name, status=Status.SKIPPED, reason=reason, turn=closing.turn))
            elif not missing[name]:
                freed.append(name)
    return Progress(statuses, closings, missing, _ready(graph, progress.ready, closing.task, freed))


def _because(closing: TaskEnd) -> str:
    what = "failed" if closing.status is Status.FAILED else "was skipped"
    return f"{closing.task!r} {what}{f': {closing.reason}' if closing.reason else '.'}"


def _ready(graph: Graph, ready: tuple[str, ...], ended: str, freed: list[str]) -> tuple[str, ...]:
    """What is ready once that task has ended, and these became so."""
    place = graph.place.__getitem__
    at = bisect_left(ready, place(ended), key=place)
    left = ready[:at] + ready[at + 1 :] if ready[at : at + 1] == (ended,) else ready
    return tuple(sorted((*left, *freed), key=place)) if freed else left
