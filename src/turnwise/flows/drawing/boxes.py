"""What a drawing says of each task."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from turnwise.flows.record import FlowRecord, TaskRecord
from turnwise.flows.tasks.graph import Graph
from turnwise.flows.tasks.task import Status, Task

SIGNS: Mapping[Status, str] = {
    Status.SUCCESSFUL: "✓",
    Status.RUNNING: "▶",
    Status.FAILED: "✗",
    Status.SKIPPED: "–",
    Status.PENDING: "○",
}
ANYBODY = "any agent"
AGENTS_NAMED = 3


class Box(NamedTuple):
    """One task in a drawing. state: how it stands, and who did it or may do it. note: why it stands so, if that needs a
    reason. more: all that is known, for whoever looks closer.
    """

    name: str
    status: Status | None
    state: str
    note: str = ""
    more: str = ""


def boxes_of(graph: Graph, record: FlowRecord | None) -> dict[str, Box]:
    """The boxes of all tasks in the order they were made. Without a record they have no status."""
    questions = {task: turn.question for turn in record.at_work for task in turn.tasks} if record else {}
    return {
        name: _box(task, record.tasks.get(name) if record else None, questions.get(name)) for name, task in graph.tasks.items()
    }


def heading(graph: Graph, record: FlowRecord | None) -> str:
    """How many tasks there are, and how they stand: `5 tasks · 3 successful · 2 pending · failed`."""
    count = len(graph.tasks)
    told = [f"{count} task{'' if count == 1 else 's'}"]
    if record is not None:
        statuses = Counter(task.status for task in record.tasks.values())
        told += [f"{statuses[status]} {status.value}" for status in SIGNS if statuses[status]]
        told += [f"ended: {record.end}"] if record.end else []
    return " · ".join(told)


def subtasks(graph: Graph) -> frozenset[tuple[str, str]]:
    """The edges that lead from a subtask to the task it is a part of."""
    return frozenset((name, task.parent) for name, task in graph.tasks.items() if task.parent is not None)


def named(agents: Sequence[str]) -> str:
    """The agents that may do a task."""
    more = f" +{len(agents) - AGENTS_NAMED}" if len(agents) > AGENTS_NAMED else ""
    return ", ".join(agents[:AGENTS_NAMED]) + more if agents else ANYBODY


def _box(task: Task, record: TaskRecord | None, question: str | None) -> Box:
    if record is None:
        return Box(task.name, None, named(task.agent_names), more=_more(task, ""))
    who = record.by or (named(task.agent_names) if record.status is Status.PENDING else "")
    state = f"{SIGNS[record.status]} {record.status.value}" + (f" · {who}" if who else "")
    note = f"asks: {question}" if question else record.reason
    return Box(task.name, record.status, state, note, _more(task, note))


def _more(task: Task, note: str) -> str:
    return "\n".join(line for line in (task.name, task.objective, note) if line)
