"""Drawings of a flow's graph with the states of its tasks: an SVG picture and a Mermaid flowchart. Pure."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple
from xml.sax.saxutils import escape

from turnwise.flows.layout import Edge, Layers, Layout, Sizes
from turnwise.flows.record import FlowRecord, TaskRecord
from turnwise.flows.tasks import Graph, Status, Task

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

WIDTH, PADDING, LINE, MARGIN, HEAD = 216.0, 12.0, 17.0, 24.0, 64.0

BESIDE, PASSING = 18.0, 10.0

BETWEEN_ACROSS, BETWEEN_DOWN = 72.0, 48.0

NAME_PIXELS, TEXT_PIXELS = 8.9, 7.3
"""Estimated width of a letter, rather too wide, because the font is unknown."""

_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[] "), frozenset("mwMW@%—…")

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_STYLE = """
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-size:12px}
.name{font-size:13px;font-weight:600} .title{font-size:17px;font-weight:600}
.way{fill:none;stroke-width:1.5} .part{stroke-dasharray:5 4} rect{stroke-width:1.5}
.pending rect{stroke-dasharray:5 3} .skipped rect{stroke-dasharray:2 3} .running rect{stroke-width:3}
.ground{stroke:none}
"""

_LIGHT = """
.ground{fill:#ffffff} text{fill:#1f2328} .quiet{fill:#57606a} .way{stroke:#818b98} .tip{fill:#818b98}
.defined rect{fill:#f6f8fa;stroke:#57606a} .pending rect{fill:#f6f8fa;stroke:#818b98}
.running rect{fill:#ddf4ff;stroke:#0969da} .successful rect{fill:#dafbe1;stroke:#1a7f37}
.failed rect{fill:#ffebe9;stroke:#cf222e} .skipped rect{fill:#eaeef2;stroke:#818b98}
"""

_DARK = """
.ground{fill:#0d1117} text{fill:#f0f6fc} .quiet{fill:#a8b3be} .way{stroke:#656c76} .tip{fill:#656c76}
.defined rect{fill:#161b22;stroke:#8b949e} .pending rect{fill:#161b22;stroke:#656c76}
.running rect{fill:#10284a;stroke:#4493f8} .successful rect{fill:#12301b;stroke:#3fb950}
.failed rect{fill:#3c1618;stroke:#f85149} .skipped rect{fill:#1c2128;stroke:#656c76}
"""


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


class _Frame(NamedTuple):
    """The direction of a picture and its sizes."""

    down: bool
    """True if edges lead down, False if they lead to the right."""
    sizes: Sizes
    height: float

    def point(self, along: float, across: float) -> tuple[float, float]:
        x, y = (across, along) if self.down else (along, across)
        return x + MARGIN, y + HEAD

    def start(self, layer: int) -> float:
        """Returns the position where a layer begins."""
        return layer * (self.sizes.along + self.sizes.between)

    def room(self, layout: Layout) -> tuple[float, float]:
        """Returns the width and height of the whole layout."""
        along = self.start(layout.layers) - self.sizes.between
        return (layout.across, along) if self.down else (along, layout.across)


def svg(graph: Graph, record: FlowRecord | None = None) -> str:
    """Returns the SVG picture: a box for each task, after the tasks it needs.

    Edges lead down or to the right: the direction with the smaller picture. The edge from a subtask to its parent is
    dashed. With a record, the boxes show that run's state. Text that does not fit is cut, and complete in the tooltip.

    Raises:
        FlowDefinitionError: The graph is too large to be drawn.
    """
    boxes = boxes_of(graph, record)
    height = 2 * PADDING + LINE * max(len(_lines(box)) for box in boxes.values()) - 4
    across = _Frame(False, Sizes(WIDTH, height, BETWEEN_ACROSS, BESIDE, PASSING), height)
    down = _Frame(True, Sizes(height, WIDTH, BETWEEN_DOWN, BESIDE, PASSING), height)
    layers = Layers(graph)
    drawn = [(frame, layers.layout(frame.sizes)) for frame in (down, across)]
    frame, layout = min(drawn, key=lambda pair: max(pair[0].room(pair[1])))
    parts = subtasks(graph)
    body = [
        *(_edge(frame, layout, way, part=(way.source, way.target) in parts) for way in layout.ways),
        *(_drawn_box(frame, layout, box) for box in boxes.values()),
    ]
    wide, high = frame.room(layout)
    legend = "dashed arrows: from a subtask to its task" if parts else ""
    return "\n".join(_document(graph.flow, heading(graph, record), legend, body, wide, high)) + "\n"


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


def _label(box: Box) -> str:
    note = box.note if len(box.note) <= NOTE_CHARACTERS else box.note[: NOTE_CHARACTERS - 1] + "…"
    return "<br/>".join((f"<b>{_escaped(box.name)}</b>", *(f"{_escaped(line)}" for line in (box.state, note) if line)))


def _escaped(text: str) -> str:
    """Escapes every character that could end a quote or become markup."""
    return _UNSAFE.sub(lambda found: f"#{ord(found[0])};", " ".join(text.split()))


def _document(flow: str, summary: str, legend: str, body: Iterable[str], wide: float, high: float) -> Iterator[str]:
    """Yields the SVG document around the drawing: size, styles, title, legend."""
    least = max(len(flow) * 10.0, len(summary) * TEXT_PIXELS, len(legend) * TEXT_PIXELS)
    width, height = max(wide, least) + 2 * MARGIN, high + HEAD + MARGIN + (LINE if legend else 0)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">'
    )
    yield f"<title>{_text(flow)}: {_text(summary)}</title>"
    yield f"<style>{_STYLE}{_LIGHT}@media (prefers-color-scheme: dark){{{_DARK}}}</style>"
    yield '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    yield '<path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>'
    yield '<rect class="ground" width="100%" height="100%"/>'
    yield f'<text class="title" x="{MARGIN}" y="30">{_text(flow)}</text>'
    yield f'<text class="quiet" x="{MARGIN}" y="48">{_text(summary)}</text>'
    yield from body
    if legend:
        yield f'<text class="quiet" x="{MARGIN}" y="{height - 14:.0f}">{_text(legend)}</text>'
    yield "</svg>"


def _drawn_box(frame: _Frame, layout: Layout, box: Box) -> str:
    """Returns a task's box as SVG."""
    layer, middle = layout.boxes[box.name]
    x, y = frame.point(frame.start(layer), middle - frame.sizes.across / 2)
    lines = _lines(box)
    top = y + (frame.height - LINE * len(lines)) / 2 + 13
    texts = "".join(
        f'<text class="{kind}" x="{x + PADDING:.1f}" y="{top + LINE * number:.1f}">{_text(line)}</text>'
        for number, (kind, line) in enumerate(lines)
    )
    rect = f'<rect x="{x:.1f}" y="{y:.1f}" width="{WIDTH:.0f}" height="{frame.height:.0f}" rx="8"/>'
    state = box.status.value if box.status else "defined"
    return f'<g class="{state}"><title>{_text(box.more)}</title>{rect}{texts}</g>'


def _lines(box: Box) -> list[tuple[str, str]]:
    """Returns the lines of a box, each with its CSS class."""
    return [
        *(("name", line) for line in _wrapped(box.name, NAME_PIXELS, 2)),
        *(("state", line) for line in _wrapped(box.state, TEXT_PIXELS)),
        *(("quiet", line) for line in _wrapped(box.note, TEXT_PIXELS, 2)),
    ]


def _edge(frame: _Frame, layout: Layout, way: Edge, *, part: bool) -> str:
    """Draws an edge: straight through the layers that it crosses, curved between them."""
    layer = layout.boxes[way.source][0]
    end = frame.start(layer) + frame.sizes.along
    points = [("M", end, way.across[0])]
    for before, across in pairwise(way.across):
        layer += 1
        begin, middle = frame.start(layer), end + frame.sizes.between / 2
        points += [("C", middle, before), (" ", middle, across), (" ", begin, across)]
        end = begin + frame.sizes.along
        points.append(("L", end, across))
    path = "".join(f"{sign}{_pair(frame.point(along, across))}" for sign, along, across in points[:-1])
    kind = "way part" if part else "way"
    return f'<path class="{kind}" d="{path}" marker-end="url(#tip)"/>'


def _pair(point: tuple[float, float]) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"


def _wrapped(text: str, pixels: float, most: int = 1) -> list[str]:
    """Breaks the text into at most `most` lines, at spaces where possible, and cuts the rest."""
    lines: list[str] = []
    rest = " ".join(text.split())
    while rest:
        fits = _fitting_count(rest, pixels)
        if fits == len(rest):
            return [*lines, rest]
        if len(lines) == most - 1:
            return [*lines, rest[: fits - 1].rstrip() + "…"]
        space = rest.rfind(" ", 0, fits + 1)
        line = rest[: space if space > fits // 2 else fits]
        lines.append(line)
        rest = rest[len(line) :].lstrip()
    return lines


def _fitting_count(text: str, pixels: float) -> int:
    """Returns the number of characters that fit in a box."""
    room = (WIDTH - 2 * PADDING) / pixels
    for number, letter in enumerate(text):
        is_wide = unicodedata.east_asian_width(letter) in "WF" or letter in _WIDE
        room -= 1.7 if is_wide else 0.6 if letter in _NARROW else 1
        if room < 0:
            return number
    return len(text)


def _text(text: str) -> str:
    """Escapes text for XML and replaces characters that XML does not allow."""
    return escape(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text))
