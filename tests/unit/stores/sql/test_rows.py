from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given, strategies as st

from turnwise.facts.content import text_content
from turnwise.facts.events import Event
from turnwise.stores.sql.rows import event_of, event_text, moment, time_text
from turnwise.testing.session_store_cases.making import NOW, said

ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=8))])
TIMES = st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9999, 12, 30), timezones=ZONES)


@given(TIMES, TIMES)
def test_times_sort_as_their_texts_do(one: datetime, two: datetime) -> None:
    assert (time_text(one) < time_text(two)) == (one < two)
    assert moment(time_text(one)) == one


def test_a_time_without_a_zone_counts_as_utc() -> None:
    assert time_text(NOW.replace(tzinfo=None)) == time_text(NOW)


@given(st.text(st.characters(codec="utf-8"), max_size=20), st.integers(1, 2**62))
def test_an_event_comes_back_with_its_number(text: str, sequence: int) -> None:
    """A31"""
    event = said("help").with_content(text_content(text))
    assert event_of(sequence, event_text(event)) == event.replace(sequence=sequence)


def test_fields_of_a_newer_version_are_kept() -> None:
    """A31"""
    newer = Event.model_validate_json(said("help").model_dump_json()[:-1] + ',"sequence_of_moods":[1]}')
    assert '"sequence_of_moods":[1]' in event_of(3, event_text(newer)).model_dump_json()
