"""Events: what speaks, what is private, who sees what, and what a newer version wrote."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from turnwise.facts.content import Content, DataPart, ToolCallPart, ToolResultPart, text_content
from turnwise.facts.events import Actions, Await, Branch, End, ErrorInfo, Event, Rewind, StepRecord
from turnwise.facts.selections import Candidate, Exclusion, Selection, Verdict

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def event(**fields: Any) -> Event:
    return Event(**{"id": "e1", "author": "a", "invocation_id": "i1", "created_at": NOW, **fields})


def full_event() -> Event:
    verdict = Verdict(
        selector="patterns",
        outcome="chosen",
        agent="a",
        method="m",
        confidence=0.5,
        candidates=(Candidate(agent="a", score=0.5),),
        passed_over=(Exclusion(agent="b", rule="unknown"),),
        ignored=("x",),
        position=2,
        ms=0.25,
    )
    selection = Selection(agent="a", method="m", confidence=0.5, reason="r", verdicts=(verdict,), excluded_count=1, segment="s")
    actions = Actions(
        state_delta={"app:k": [1, None, {"x": 1.5}]},
        artifact_versions={"f": 1},
        transfer_to="b",
        next="c",
        escalate=True,
        awaits=Await(id="w", kind="tool_result", expires_at=NOW),
        answers="w0",
        selection=selection,
        positions={"iterative": 3},
        steps=(StepRecord(key="k", value={"v": 1}),),
        finished=(Branch("1/~x"),),
        blocked_by="g",
        rewind=Rewind(from_sequence=3, invocation_id="i0"),
        end=End(reason="failed", detail="d"),
    )
    error = ErrorInfo(code="agent.failed", message="m")
    return event(content=text_content("hi"), actions=actions, error=error, branch="1/~a", scope=("s",), attempt=2, sequence=7)


def test_an_event_survives_a_round_trip() -> None:
    assert Event.model_validate_json(full_event().model_dump_json()) == full_event()


def test_unknown_fields_at_every_level_survive_a_round_trip() -> None:
    """Design decision 12: an event of a newer version is read without loss."""
    written = json.loads(full_event().model_dump_json())
    written["from_the_future"] = {"deep": [1, 2]}
    written["actions"]["teleport_to"] = "mars"
    written["actions"]["awaits"]["patience"] = 3
    written["actions"]["selection"]["verdicts"][0]["aura"] = "blue"
    written["content"]["parts"].append({"kind": "smell", "of": "roses"})
    read = Event.model_validate_json(json.dumps(written))
    assert json.loads(read.model_dump_json()) == written
    numbered = read.replace(sequence=8)
    assert json.loads(numbered.model_dump_json()) == {**written, "sequence": 8}


def test_a_misspelt_action_is_an_error_in_code() -> None:
    with pytest.raises(ValidationError):
        Actions(transferto="b")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("fields", "speaks"),
    [
        ({}, False),
        ({"content": Content()}, False),
        ({"content": text_content("")}, True),
        ({"content": text_content("hi")}, True),
        ({"actions": Actions(transfer_to="b")}, True),
        ({"actions": Actions(awaits=Await(id="w"))}, True),
        ({"actions": Actions(state_delta={"k": 1})}, False),
        ({"actions": Actions(end=End())}, False),
        ({"content": text_content("hi"), "error": ErrorInfo(code="c", message="m")}, False),
        ({"content": text_content("hi"), "actions": Actions(blocked_by="g")}, False),
    ],
)
def test_what_speaks(fields: dict[str, Any], speaks: bool) -> None:
    """A10: an error and a blocked answer are not words of their author."""
    assert event(**fields).speaks is speaks


def test_text_of_an_event_without_content_is_empty() -> None:
    assert event().text == ""


@pytest.mark.parametrize(
    ("viewer", "other", "seen"),
    [
        ("1", "1", True),
        ("1/seq", "1", True),
        ("1", "1/seq", True),
        ("1/~a", "1/~b", False),
        ("1/~a", "1/~a", True),
        ("1/~a/x", "1/~b/y", False),
        ("1/seq/~a", "1/seq/~b", False),
        ("1/seq/later", "1/seq/~b", True),
        ("1/seq/~a", "1/seq/earlier", True),
        ("2", "1/~b", True),
        ("2/~a", "1/~b", True),
        ("1/~a/~x", "1/~a/~y", False),
        ("1", "1/>helper#1", False),
        ("2", "1/>helper#1", False),
        ("1/>helper#1", "1/>helper#1", True),
        ("1/>helper#1", "1", True),
        ("1/>helper#1", "1/>helper#1/>deeper#1", False),
        ("1/>helper#1/>deeper#1", "1/>helper#1", True),
        ("1/>helper#2", "1/>helper#1", False),
        ("1/~a", "1/~a/>helper#1", False),
        ("1/~a", "1/~b/>helper#1", False),
    ],
)
def test_who_sees_what(viewer: str, other: str, seen: bool) -> None:
    """A41: children of a parallel agent do not see each other, later agents see all, calls are private."""
    assert Branch(viewer).sees(Branch(other)) is seen


def test_a_called_agents_events_are_private() -> None:
    assert event(branch="1/>helper#1").is_private
    assert event(branch="1/~a/>helper#1/x").is_private
    assert not event(branch="1/~a").is_private
    assert not event(branch="").is_private


@pytest.mark.parametrize(
    ("content", "actions", "answers"),
    [
        (text_content("words"), Actions(), True),
        (Content(parts=(DataPart(name="figures", data={"n": 1}),)), Actions(), True),
        (Content(parts=(ToolCallPart(call_id="c", tool="t"),)), Actions(), False),
        (Content(parts=(ToolResultPart(call_id="c", result=1),)), Actions(), False),
        (text_content(""), Actions(next="b"), True),
        (None, Actions(next="b"), True),
        (None, Actions(), False),
    ],
)
def test_an_answer_says_something_to_the_asker_or_names_the_next(
    content: Content | None, actions: Actions, answers: bool
) -> None:
    """B7"""
    assert event(content=content, actions=actions).is_answer is answers


def test_with_actions_replaces_the_named_actions_only() -> None:
    made = event(actions=Actions(next="b", steps=(StepRecord(key="k"),)))
    assert made.with_actions(next=None, end=End()).actions == Actions(steps=(StepRecord(key="k"),), end=End())
    assert made.actions.next == "b"
    with pytest.raises(TypeError, match="Actions has no field 'nxt'"):
        made.with_actions(nxt="b")  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        made.with_actions(next=1)  # type: ignore[arg-type]


def test_with_content_replaces_the_content_only() -> None:
    made = event(content=text_content("hi"), offset=3)
    assert made.with_content(None) == event(offset=3)
    assert made.with_content(text_content("ho")).text == "ho"
    with pytest.raises(ValidationError):
        made.with_content("ho")  # type: ignore[arg-type]
