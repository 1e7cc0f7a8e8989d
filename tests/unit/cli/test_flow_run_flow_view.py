"""A flow at work, on standard error."""

from datetime import UTC, datetime
from typing import Any

import pytest

from turnwise.cli.flow_run import FlowView
from turnwise.facts.content import Content, text_content
from turnwise.facts.events import Actions, Event, Rewind
from turnwise.facts.selections import Selection
from turnwise.flows.logged import TurnEnd, task_end_content, turn_end_content
from turnwise.flows.plan import Plan, PlannedTask, plan_content
from turnwise.flows.tasks import Graph, Status, Task, TaskEnd
from turnwise.flows.turns import HandoffNote

GRAPH = Graph("report", [Task("draft", agents=["writer"]), Task("print", depends_on=["draft"])])
CHOICE = Selection(agent="writer", method="popcorn", confidence=1.0, reason="", occasion="flow")


def event(number: int, content: Content | None = None, **more: Any) -> Event:
    fields = {"author": "report", "branch": "1", "scope": ("report/draft",), **more}
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Event(id=f"e{number}", invocation_id="i", created_at=now, content=content, sequence=number, **fields)


def begun(number: int = 1) -> Event:
    return event(number, Content(), actions=Actions(selection=CHOICE))


def closed(number: int, status: Status = Status.SUCCESSFUL) -> Event:
    return event(number, task_end_content("report", TaskEnd(task="draft", status=status, result="x", reason="", by="writer")))


def test_a_line_for_whatever_happens(capsys: pytest.CaptureFixture[str]) -> None:
    view = FlowView("report", GRAPH)
    handed = turn_end_content("report", "writer", TurnEnd("critic", HandoffNote("writer", text_content("Look\nat it."))))
    with view.live():
        for each in (begun(), event(2, handed, scope=("report",)), closed(3, Status.FAILED)):
            view.show(each)
    assert capsys.readouterr().err == (
        "→ writer · draft · popcorn\n↷ writer ends its turn · for critic · Look at it.\n✗ draft failed\n"
        "– print skipped · 'draft' failed.\n"
    )
    assert view.last == 3


def test_what_happened_before_is_not_told_again(capsys: pytest.CaptureFixture[str]) -> None:
    view = FlowView("report", GRAPH)
    view.look_back([begun()])
    view.show(closed(2))
    assert capsys.readouterr().err == "✓ draft successful · x\n"


def test_what_a_new_attempt_takes_back_is_no_longer_so(capsys: pytest.CaptureFixture[str]) -> None:
    """E7."""
    view = FlowView("report", GRAPH)
    view.show(begun())
    view.show(closed(2))
    again = Actions(rewind=Rewind(from_sequence=2, invocation_id="i"))
    view.show(event(3, actions=again, attempt=2, scope=()))
    assert view.record is not None
    assert view.record.tasks["draft"].status is Status.RUNNING
    view.show(closed(4))
    said = capsys.readouterr().err
    assert said.count("✓ draft successful · x\n") == 2
    assert "↻ attempt 2" in said


def test_tasks_that_the_run_says_are_shown_when_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    view = FlowView("report")
    planned = plan_content("report", Plan(tasks=(PlannedTask(name="draft", agents=("writer",)),)))
    view.show(event(1, Content(), author="user", branch="", scope=()))
    assert view.record is None
    for each in (event(2, planned, scope=("report",)), begun(3), closed(4)):
        view.show(each)
    assert capsys.readouterr().err == (
        "plan · 1 task\ntask   agents  needs  result  objective\ndraft  writer         text\n"
        "→ writer · draft · popcorn\n✓ draft successful · x\n"
    )
    again = FlowView("report")
    again.look_back([event(2, planned, scope=("report",)), begun(3)])
    again.show(closed(4))
    assert capsys.readouterr().err == "✓ draft successful · x\n"
