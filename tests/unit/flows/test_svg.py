"""A flow as an SVG picture."""

import re
from xml.etree import ElementTree

import pytest

from turnwise.flows.drawing import svg
from turnwise.flows.record import FlowRecord, TaskRecord
from turnwise.flows.tasks import Graph, Status, Task

NAMESPACE = "{http://www.w3.org/2000/svg}"


def read(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def lines(root: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{NAMESPACE}text")]


def size(root: ElementTree.Element) -> tuple[float, float]:
    return float(root.get("width", "")), float(root.get("height", ""))


def test_every_task_is_a_box_and_every_need_a_way() -> None:
    graph = Graph("book", [Task("plan", agents=["ann"]), Task("chapter", parent="book"), Task("book", depends_on=["plan"])])
    root = read(svg(graph))
    assert lines(root) == [
        "book", "3 tasks", "plan", "ann", "chapter", "any agent", "book", "any agent",
        "dashed arrows: from a subtask to its task",
    ]  # fmt: skip
    assert sorted(path.get("class", "") for path in root.findall(f"{NAMESPACE}path")) == ["way", "way part"]


def test_a_run_is_coloured_by_state_and_says_why() -> None:
    graph = Graph("book", [Task(status.value, agents=["ann"]) for status in Status])
    record = FlowRecord("book", "i", {s.value: TaskRecord(s.value, s, "ann", reason="why") for s in Status}, end="failed")
    root = read(svg(graph, record))
    assert [group.get("class") for group in root.findall(f"{NAMESPACE}g")] == [status.value for status in Status]
    assert "✗ failed · ann" in lines(root)
    style = next(root.iter(f"{NAMESPACE}style")).text or ""
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    for state in (*Status, "defined"):
        assert f".{state} rect{{fill:" in light
        assert f".{state} rect{{fill:" in dark


def test_text_is_escaped_and_what_xml_cannot_hold_replaced() -> None:
    graph = Graph("<script>", [Task('a"b & <c>', "bell \x07, lone \ud800, \x1b[31m", agents=["]]>"])])
    text = svg(graph)
    root = read(text)
    assert "<script>" in lines(root)
    assert 'a"b & <c>' in lines(root)
    assert "<script>" not in text
    assert not re.search("[\x00-\x08\x1b\ud800]", text)


@pytest.mark.parametrize("text", ["m" * 64, "i" * 64, "word " * 12 + "end", "訳" * 64])
def test_long_texts_are_cut_where_the_box_ends_and_whole_in_the_tooltip(text: str) -> None:
    root = read(svg(Graph("book", [Task(text, agents=["ann"])])))
    name = [each.text or "" for each in root.iter(f"{NAMESPACE}text") if each.get("class") == "name"]
    assert len(name) == 2
    assert name[-1].endswith("…") or "".join(name).replace(" ", "") == text.replace(" ", "")
    assert any((title.text or "").startswith(text) for title in root.iter(f"{NAMESPACE}title"))


def test_thirty_side_by_side_are_a_column_and_thirty_in_a_row_too() -> None:
    fan = [Task("first"), *(Task(f"t{n}", depends_on=["first"]) for n in range(30))]
    row = [Task(f"t{n}", depends_on=[f"t{n - 1}"] if n else []) for n in range(30)]
    for tasks in (fan, row):
        wide, high = size(read(svg(Graph("flow", tasks))))
        assert wide < 700 < high


def test_every_box_and_way_is_inside_the_picture() -> None:
    tasks = [Task(f"t{n}", depends_on=[f"t{m}" for m in {n - 1, n - 3, n // 2} if 0 <= m < n]) for n in range(30)]
    root = read(svg(Graph("flow", tasks)))
    wide, high = size(root)
    for box in root.findall(f"{NAMESPACE}g/{NAMESPACE}rect"):
        x, y, width, height = (float(box.get(key, "")) for key in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + width <= wide
        assert y + height <= high
    for way in root.findall(f"{NAMESPACE}path"):
        numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", way.get("d", ""))]
        assert all(0 <= x <= wide for x in numbers[::2])
        assert all(0 <= y <= high for y in numbers[1::2])
