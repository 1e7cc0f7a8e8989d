"""The texts of a drawing for each task, and the Mermaid flowchart."""

import json
import re
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
NOTE_CHARACTERS = 80
_UNSAFE = re.compile(r"[^\w ·✓✗○▶–,.()+!?/-]")
_CLASSES: Mapping[Status | None, tuple[str, str]] = {
    None: ("defined", "fill:#f6f8fa,stroke:#57606a,color:#1f2328"),
    Status.PENDING: ("pending", "fill:#f6f8fa,stroke:#57606a,color:#1f2328,stroke-dasharray:5 3"),
    Status.RUNNING: ("running", "fill:#ddf4ff,stroke:#0969da,color:#1f2328,stroke-width:3px"),
    Status.SUCCESSFUL: ("successful", "fill:#dafbe1,stroke:#1a7f37,color:#1f2328"),
    Status.FAILED: ("failed", "fill:#ffebe9,stroke:#cf222e,color:#1f2328"),
    Status.SKIPPED: ("skipped", "fill:#eaeef2,stroke:#8c959f,color:#424a53,stroke-dasharray:2 3"),
}


class Box(NamedTuple):
    """One task in a drawing."""

    name: str
    status: Status | None
    state: str
    """The task's status, and the agent that did it or the agents that may do it."""
    note: str = ""
    """The reason for the status, or the open question."""
    more: str = ""
    """All details, for a tooltip."""


def boxes_of(graph: Graph, record: FlowRecord | None) -> dict[str, Box]:
    """Returns the boxes of all tasks in the order of their creation; without a record they have no status."""
    questions = {task: turn.question for turn in record.at_work for task in turn.tasks} if record else {}
    return {
        name: _box(task, record.tasks.get(name) if record else None, questions.get(name)) for name, task in graph.tasks.items()
    }


def heading(graph: Graph, record: FlowRecord | None) -> str:
    """Returns the number of tasks and their states: `5 tasks · 3 successful · 2 pending · ended: failed`."""
    count = len(graph.tasks)
    parts = [f"{count} task{'' if count == 1 else 's'}"]
    if record is not None:
        statuses = Counter(task.status for task in record.tasks.values())
        parts += [f"{statuses[status]} {status.value}" for status in SIGNS if statuses[status]]
        parts += [f"ended: {record.end}"] if record.end else []
    return " · ".join(parts)


def subtasks(graph: Graph) -> frozenset[tuple[str, str]]:
    """Returns the edges from a subtask to its parent."""
    return frozenset((name, task.parent) for name, task in graph.tasks.items() if task.parent is not None)


def agents_text(agents: Sequence[str]) -> str:
    """Returns the agents that may do a task, as text."""
    more = f" +{len(agents) - AGENTS_NAMED}" if len(agents) > AGENTS_NAMED else ""
    return ", ".join(agents[:AGENTS_NAMED]) + more if agents else ANYBODY


def _box(task: Task, record: TaskRecord | None, question: str | None) -> Box:
    """Returns the texts of a task's box, with its state if it has been run."""
    if record is None:
        return Box(task.name, None, agents_text(task.agent_names), more=_more(task, ""))
    agents = record.by or (agents_text(task.agent_names) if record.status is Status.PENDING else "")
    state = f"{SIGNS[record.status]} {record.status.value}" + (f" · {agents}" if agents else "")
    note = f"asks: {question}" if question else record.reason
    return Box(task.name, record.status, state, note, _more(task, note))


def _more(task: Task, note: str) -> str:
    return "\n".join(line for line in (task.name, task.objective, note) if line)


def mermaid(graph: Graph, record: FlowRecord | None = None) -> str:
    """Returns the Mermaid flowchart: a box for each task, below the tasks it needs.

    The arrow from a subtask to its parent is dotted. With a record, the boxes show that run's state.
    """
    boxes = boxes_of(graph, record)
    keys = {name: f"t{number}" for number, name in enumerate(boxes, 1)}
    parts = subtasks(graph)
    title = json.dumps(f"{graph.flow}: {heading(graph, record)}", ensure_ascii=False)
    lines = ["---", f"title: {title}", "---", "flowchart TD"]
    lines += [f'  {keys[name]}["{_label(box)}"]:::{_CLASSES[box.status][0]}' for name, box in boxes.items()]
    for name in boxes:
        lines += [f"  {keys[need]} {'-.->' if (need, name) in parts else '-->'} {keys[name]}" for need in graph.needs[name]]
    used = dict.fromkeys(box.status for box in boxes.values())
    lines += [f"  classDef {name} {style}" for name, style in (_CLASSES[status] for status in used)]
    return "\n".join(lines) + "\n"


def _label(box: Box) -> str:
    note = box.note if len(box.note) <= NOTE_CHARACTERS else box.note[: NOTE_CHARACTERS - 1] + "…"
    return "<br/>".join((f"<b>{_escaped(box.name)}</b>", *(f"{_escaped(line)}" for line in (box.state, note) if line)))


def _escaped(text: str) -> str:
    """Escapes every character that could end a quote or become markup."""
    return _UNSAFE.sub(lambda found: f"#{ord(found[0])};", " ".join(text.split()))
