"""Events read for transcripts: fewer fields, the same transcript."""

import json
from collections.abc import Sequence
from datetime import timedelta, timezone
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings, strategies as st
from logs import NOW, asks, call, event, log_of, numbered, opening_of, result, view_of

from turnwise.facts.content import TextPart
from turnwise.facts.events import Actions, Branch, End, Event, JobRequest, StepRecord
from turnwise.facts.usage import Usage
from turnwise.stores.sql.rows import EventRow, event_text
from turnwise.stores.sql.transcript_events import NOT_SHOWN, transcript_events
from turnwise.transcript.compile import compile_transcript
from turnwise.transcript.view import Budget

SEEDS = st.integers(0, 2**64)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
PROGRAMS_ONLY: list[dict[str, Any]] = [
    {"usage": Usage(model="m", input_tokens=3, ms=1.5)},
    {"steps": (StepRecord(key="1:model#1", says=True), StepRecord(key="1:x", value={"a": [None, 1.5]}))},
    {"state_delta": {"gone": None, "kept": 1}, "state_before": {"kept": 0}},
    {"artifact_versions": {"a": 2}, "positions": {"p": 1}, "finished": (Branch("1/a"),)},
    {"jobs": (JobRequest(kind="summary", until=3),)},
    {"end": End()},
    {"end": End(reason="failed", detail="d")},
]


def rows_of(log: Sequence[Event]) -> list[EventRow]:
    return [EventRow(each.sequence or 0, each.id, each.invocation_id, each.author, event_text(each)) for each in log]


def without_unshown(each: Event) -> Event:
    return each.with_actions(**{name: Actions.model_fields[name].get_default(call_default_factory=True) for name in NOT_SHOWN})


def with_noise(chance: Random, log: Sequence[Event]) -> list[Event]:
    """The log with actions for programs, and labels, at some of its events."""
    noisy = []
    for each in log:
        for more in chance.sample(PROGRAMS_ONLY, chance.choice([0, 1, 1, 3])):
            each = each.with_actions(**more)  # noqa: PLW2901 - each addition builds on the one before
        noisy.append(each.replace(created_at=NOW.astimezone(timezone(timedelta(hours=chance.randint(-8, 8))))))
    return noisy


def newer(chance: Random, row: EventRow) -> EventRow:
    """The row as a newer version may write it: with a field that this version does not know."""
    body = json.loads(row.body)
    places = [body, *(body[name] for name in ("content", "actions") if name in body)]
    places += body.get("content", {}).get("parts", ())
    places += [each for name, each in body.get("actions", {}).items() if name not in ("artifact_versions", "positions")]
    chance.choice([place for place in places if isinstance(place, dict)])["mood"] = chance.choice([1, "glad", None, [2]])
    return row._replace(body=json.dumps(body))


@settings(max_examples=300, phases=UNSHRUNK, deadline=None)
@given(SEEDS)
def test_the_transcript_is_that_of_the_whole_events(seed: int) -> None:
    """D7 to D9: for logs with rewinds, attempts, waits, calls, private calls, labels, summaries, and newer fields."""
    chance = Random(seed)
    log = with_noise(chance, log_of(chance))
    rows = [newer(chance, row) if chance.random() < 0.1 else row for row in rows_of(log)]
    whole, light = [row.event() for row in rows], transcript_events(rows)
    for _ in range(3):
        view = view_of(chance, log)
        opening, budget = opening_of(chance, log, view), Budget(chance.choice([300, 10**6]), chance.choice([9, 10_000]))
        assert compile_transcript(light, view, opening, budget) == compile_transcript(whole, view, opening, budget)


@settings(max_examples=200, phases=UNSHRUNK, deadline=None)
@given(SEEDS)
def test_only_unshown_actions_are_left_out(seed: int) -> None:
    chance = Random(seed)
    log = with_noise(chance, log_of(chance))
    rows = [newer(chance, row) if chance.random() < 0.1 else row for row in rows_of(log)]
    for row, light in zip(rows, transcript_events(rows), strict=True):
        whole = row.event()
        assert without_unshown(light) == without_unshown(whole)


def test_usual_events_are_read_without_validation() -> None:
    """The one that answers holds its steps and its usage; neither is read."""
    steps, usage = (StepRecord(key="1:model#1", says=True),), Usage(model="m")
    log = numbered(
        [
            asks("hello"),
            event("a", "let me see", call("k1", x=1), steps=steps, usage=usage),
            event("a", result("k1", {"found": [1, None]}), steps=steps, scope=("task",)),
            event("a", "found", steps=steps, usage=usage, end=End()),
        ]
    )
    rows = rows_of(log)
    light = transcript_events(rows)
    assert all(each.actions.usage is None and each.actions.steps == () for each in light)
    assert [without_unshown(row.event()) for row in rows] == light


@settings(max_examples=100, phases=UNSHRUNK, deadline=None)
@given(
    st.text() | st.sampled_from(['a "b"', "two\nlines", "\\", '"}]}', "\x00", "日本 \U0001f600", '{"kind":"text"}']),
    st.booleans(),
)
def test_any_single_text_is_read_unchanged(text: str, says_more: bool) -> None:
    """Also one with quotes, line breaks, and what looks like the end of the content."""
    actions: dict[str, Any] = {"steps": (StepRecord(key="1:model#1", says=True),), "usage": Usage(model="m"), "end": End()}
    said = event("a", TextPart(text=text), **(actions if says_more else {}))
    (row,) = rows_of(numbered([said]))
    (light,) = transcript_events([row])
    assert light == without_unshown(row.event())
    assert light.text == text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"text":"hello"', '"text":7'),
        ('"role":"user"', '"role":"robot"'),
        ('"created_at":"', '"created_at":"not a time '),
        ('"parts":[', '"parts":[null,'),
        ('"confidence":1.0', '"confidence":"high"'),
        ('{"created_at"', '{"attempt":"x","created_at"'),
        ('"kind":"text"', '"kind":[]'),
        ("}", ""),
    ],
)
def test_what_validation_refuses_is_refused(old: str, new: str) -> None:
    """A damaged event fails the read, as it does when the log is read as a whole."""
    row = rows_of(numbered([asks("hello")]))[0]
    assert old in row.body
    damaged = row._replace(body=row.body.replace(old, new, 1) if new else row.body[:-1])
    with pytest.raises(ValueError, match="validation error"):
        transcript_events([damaged])


def test_events_share_nothing_that_changes() -> None:
    """A reader that changes the arguments of one call changes no other event."""
    rows = rows_of(numbered([event("a", call("k1", x=1)), event("a", call("k1", x=1))]))
    first, second = transcript_events(rows)
    assert first.content is not None
    assert second.content is not None
    first.content.tool_calls[0].arguments["x"] = 2
    assert second.content.tool_calls[0].arguments == {"x": 1}


def test_a_text_is_a_part_that_can_be_replaced() -> None:
    """A31: facts that were not validated are still checked when they change."""
    (light,) = transcript_events(rows_of(numbered([asks("hello")])))
    assert light.content is not None
    part = light.content.parts[0]
    assert isinstance(part, TextPart)
    assert part.replace(text="bye").text == "bye"
    with pytest.raises(ValueError, match="validation error"):
        part.replace(text=7)  # type: ignore[arg-type] # what the test is about
