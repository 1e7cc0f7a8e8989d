"""A person's leave for a tool call, in what is typed."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from turnwise.agents.approval import answer_of
from turnwise.cli.approval import approval_answer, approval_line, approval_question
from turnwise.cli.batch_run import InputLine
from turnwise.facts.content import Content, TextPart, ToolCallPart
from turnwise.facts.events import Actions, Await, Event
from turnwise.facts.sessions import SessionKey
from turnwise.facts.waits import Wait


def event(tool: str = "confirm", waits: str | None = "c1-ok") -> Event:
    asked = ToolCallPart(call_id="c1-ok", tool=tool, arguments={"tool": "cancel", "call": "c1"}, private=True)
    return Event(
        id="e",
        author="orders",
        invocation_id="i",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        content=Content(parts=(TextPart(text="May I call cancel?"), asked)),
        actions=Actions(awaits=Await(id=waits, kind="tool_result") if waits else None),
    )


ASKED = Wait("i", "c1-ok", "confirmation", "orders")


def test_a_question_is_what_waits_for_its_answer() -> None:
    asked = approval_question(event())
    assert asked is not None
    assert (asked.id, asked.agent, asked.text) == ("c1-ok", "orders", "May I call cancel?")
    assert [
        approval_question(event(waits=None)),
        approval_question(event(waits="c2")),
        approval_question(event(tool="pay")),
    ] == [None] * 3


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("y", {"approved": True}),
        (" Yes. ", {"approved": True}),
        ("n", {"approved": False}),
        ("No!", {"approved": False}),
        ("n, it is too much", {"approved": False, "reason": "it is too much"}),
        ("no not today", {"approved": False, "reason": "not today"}),
        ("yes please", None),
        ("now what?", None),
        ("what is the weather?", None),
        ("", None),
    ],
)
def test_what_answers_it(line: str, result: Any) -> None:
    answer = approval_answer(ASKED, line)
    assert (answer.tool_results[0].result if answer else None) == result
    assert answer is None or answer.tool_results[0].call_id == ASKED.id


@given(st.text())
def test_nothing_but_a_plain_yes_is_a_leave(line: str) -> None:
    answer = approval_answer(ASKED, line)
    if answer is not None and answer_of(answer.tool_results[0]).approved:
        assert line.strip().casefold().strip(".! \t\n\r\x1c\x1d\x1e\x1f\x85\xa0") in {"y", "yes"}


def test_the_line_that_says_yes_is_one_that_run_takes() -> None:
    line = InputLine.model_validate_json(approval_line(ASKED, SessionKey("app", "bob", "s 1")))
    assert (line.user, line.session) == ("bob", "s 1")
    assert isinstance(line.message, Content)
    assert answer_of(line.message.tool_results[0]).approved
    assert "\n" not in json.dumps(line.model_dump(mode="json"))
