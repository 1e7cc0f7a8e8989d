"""What a drawing says of each task."""

from turnwise.flows.drawing import agents_text, boxes_of, heading, subtasks
from turnwise.flows.record import FlowRecord, TaskRecord, TurnRecord
from turnwise.flows.tasks import Graph, Status, Task

GRAPH = Graph(
    "book",
    [
        Task("plan", "Think first.", agents=["ann"]),
        Task("chapter", parent="book"),
        Task("book", depends_on=["plan"]),
    ],
)
RECORD = FlowRecord(
    "book",
    "i",
    {
        "plan": TaskRecord("plan", Status.FAILED, "ann", reason="No idea."),
        "chapter": TaskRecord("chapter", Status.RUNNING, "bob"),
        "book": TaskRecord("book"),
    },
    (TurnRecord(1, "bob", ("chapter",), question="How long?"),),
    end="failed",
)


def test_a_definition_says_who_may_do_it() -> None:
    boxes = boxes_of(GRAPH, None)
    assert [(box.name, box.status, box.state, box.note) for box in boxes.values()] == [
        ("plan", None, "ann", ""),
        ("chapter", None, "any agent", ""),
        ("book", None, "any agent", ""),
    ]
    assert boxes["plan"].more == "plan\nThink first."
    assert heading(GRAPH, None) == "3 tasks"


def test_a_run_says_how_each_stands_and_why() -> None:
    boxes = boxes_of(GRAPH, RECORD)
    assert [(box.state, box.note) for box in boxes.values()] == [
        ("✗ failed · ann", "No idea."),
        ("▶ running · bob", "asks: How long?"),
        ("○ pending · any agent", ""),
    ]
    assert heading(GRAPH, RECORD) == "3 tasks · 1 running · 1 failed · 1 pending · ended: failed"


def test_subtasks_are_told_from_dependencies() -> None:
    assert subtasks(GRAPH) == {("chapter", "book")}


def test_many_agents_are_counted() -> None:
    assert agents_text(["a", "b", "c", "d", "e"]) == "a, b, c +2"
