from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given, strategies as st

from turnwise.facts.content import text_content
from turnwise.facts.events import Await, End, Event, StepRecord
from turnwise.facts.selections import Candidate, Selection, Verdict
from turnwise.facts.sessions import Session, fold
from turnwise.stores.sql.rows import EventRow, decision_row, event_text, moment, selection_of, time_text
from turnwise.testing.session_store_cases.making import NOW, said

ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=8))])
TIMES = st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9999, 12, 30), timezones=ZONES)


@given(TIMES, TIMES)
def test_times_sort_as_their_texts_do(one: datetime, two: datetime) -> None:
    assert (time_text(one) < time_text(two)) == (one < two)
    assert moment(time_text(one)) == one


def test_a_time_without_a_zone_counts_as_utc() -> None:
    assert time_text(NOW.replace(tzinfo=None)) == time_text(NOW)


def stored(event: Event, sequence: int) -> EventRow:
    return EventRow(sequence, event.id, event.invocation_id, event.author, event_text(event))


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
ACTIONS = st.fixed_dictionaries(
    {},
    optional={
        "state_delta": st.dictionaries(TEXTS, st.integers() | TEXTS | st.none(), max_size=2),
        "transfer_to": TEXTS,
        "finished": st.lists(TEXTS, max_size=2).map(tuple),
        "escalate": st.booleans(),
        "end": st.builds(End, detail=TEXTS),
        "cut_off": TEXTS,
        "awaits": st.builds(Await, id=TEXTS),
        "steps": st.lists(st.builds(StepRecord, key=TEXTS, value=TEXTS), max_size=2).map(tuple),
    },
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={"branch": TEXTS, "within": TEXTS, "scope": st.lists(TEXTS, max_size=2).map(tuple), "attempt": st.integers(1, 9)},
)


@given(TEXTS, st.integers(1, 2**62), ACTIONS, FIELDS, st.text(max_size=9).filter(lambda name: "\0" not in name))
def test_an_event_comes_back_with_its_number(
    text: str, sequence: int, actions: dict[str, Any], fields: dict[str, Any], author: str
) -> None:
    """A31: whatever fields it sets."""
    event = said("help", **actions).model_copy(update={"content": text_content(text), "author": author, **fields})
    assert stored(event, sequence).event() == event.model_copy(update={"sequence": sequence})


def test_an_event_that_does_nothing_is_small() -> None:
    assert len(event_text(said("help", "hi"))) < 120


def test_fields_of_a_newer_version_are_kept() -> None:
    """A31"""
    newer = Event.model_validate_json(said("help").model_dump_json()[:-1] + ',"sequence_of_moods":[1]}')
    assert '"sequence_of_moods":[1]' in stored(newer, 3).event().model_dump_json()


VERDICTS = st.builds(
    Verdict,
    selector=TEXTS,
    outcome=st.sampled_from(["chosen", "abstained", "clarify"]),
    candidates=st.lists(st.builds(Candidate, agent=TEXTS, score=st.floats(0, 1)), max_size=3).map(tuple),
    also=st.lists(TEXTS, max_size=2).map(tuple),
)
SELECTIONS = st.builds(
    Selection,
    agent=TEXTS,
    method=TEXTS,
    confidence=st.floats(0, 1),
    reason=TEXTS,
    outcome=st.sampled_from(["chosen", "clarify"]),
    verdicts=st.lists(VERDICTS, max_size=3).map(tuple),
    fingerprint=TEXTS,
)


@given(SELECTIONS)
def test_a_selection_is_stored_once_and_comes_back_whole(selection: Selection) -> None:
    """C10, E1: the columns and the record of the decision, and the short form in the log, make the event again."""
    event = said("user", "hello", selection=selection)
    row = decision_row(Session(app="a", user="u", id="s", created_at=NOW, updated_at=NOW), event, 1)
    whole = selection_of(cast("Any", SimpleNamespace(**row)))
    assert whole == selection
    assert stored(event, 1).event(whole) == event.model_copy(update={"sequence": 1})
    short = stored(event, 1).event().actions.selection
    assert short is not None
    assert (short.agent, short.outcome, short.reason) == (selection.agent, selection.outcome, "")
    assert fold(_empty(), [event]).head == fold(_empty(), [stored(event, 1).event()]).head, "the fold needs no verdicts"


def _empty() -> Session:
    return Session(app="a", user="u", id="s", created_at=NOW, updated_at=NOW)


@given(st.text(max_size=40), SELECTIONS)
def test_only_an_event_with_a_selection_asks_for_its_decision(text: str, selection: Selection) -> None:
    quoted = said("user", f'"selection":{{{text}')
    assert not stored(quoted, 1).decides
    assert stored(said("user", text, selection=selection), 1).decides
