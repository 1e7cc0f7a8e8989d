"""A flow as a Mermaid flowchart."""

from turnwise.flows.drawing import mermaid
from turnwise.flows.record import FlowRecord, TaskRecord
from turnwise.flows.tasks import Graph, Status, Task


def test_boxes_ways_and_subtasks() -> None:
    graph = Graph("book", [Task("plan", agents=["ann"]), Task("chapter", parent="book"), Task("book", depends_on=["plan"])])
    assert mermaid(graph) == (
        '---\ntitle: "book: 3 tasks"\n---\nflowchart TD\n'
        '  t1["<b>plan</b><br/>ann"]:::defined\n'
        '  t2["<b>chapter</b><br/>any agent"]:::defined\n'
        '  t3["<b>book</b><br/>any agent"]:::defined\n'
        "  t1 --> t3\n  t2 -.-> t3\n"
        "  classDef defined fill:#f6f8fa,stroke:#57606a,color:#1f2328\n"
    )


def test_a_run_has_its_states() -> None:
    graph = Graph("book", [Task("plan", agents=["ann"])])
    text = mermaid(graph, FlowRecord("book", "i", {"plan": TaskRecord("plan", Status.FAILED, "ann", reason="x" * 100)}))
    assert f'  t1["<b>plan</b><br/>✗ failed · ann<br/>{"x" * 79}#8230;"]:::failed\n' in text
    assert "  classDef failed " in text
    assert "classDef pending" not in text


def test_no_text_leaves_its_quotes() -> None:
    graph = Graph('a"b\\', [Task('x"]; click t1 <script> #1: `y` & [z]', agents=["a|b"])])
    text = mermaid(graph)
    assert 'title: "a\\"b\\\\: 1 task"' in text
    assert "<b>x#34;#93;#59; click t1 #60;script#62; #35;1#58; #96;y#96; #38; #91;z#93;</b><br/>a#124;b" in text
