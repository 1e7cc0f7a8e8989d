"""A flow as a Mermaid flowchart. Pure."""

import json
import re
from collections.abc import Mapping

from turnwise.flows.drawing.boxes import Box, boxes_of, heading, subtasks
from turnwise.flows.record import FlowRecord
from turnwise.flows.tasks.graph import Graph
from turnwise.flows.tasks.task import Status

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


def mermaid(graph: Graph, record: FlowRecord | None = None) -> str:
    """The flowchart: a box for each task, those that need no other at the top, what needs them below; the way from a
    subtask to the task it is a part of is dotted. With a record, how that run stands.
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
    return "<br/>".join((f"<b>{_safe(box.name)}</b>", *(f"{_safe(line)}" for line in (box.state, note) if line)))


def _safe(text: str) -> str:
    """Text that can neither end its quotes nor become markup: what could is written as its code."""
    return _UNSAFE.sub(lambda found: f"#{ord(found[0])};", " ".join(text.split()))
