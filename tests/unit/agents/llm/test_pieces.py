import re
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from turnwise.agents.confirming import question_id
from turnwise.agents.llm.pieces import call_id, partial, whole
from turnwise.facts.content import Content, TextPart, ThinkingPart, ToolCallPart
from turnwise.facts.events import Event
from turnwise.facts.ids import SystemIssuer
from turnwise.ports.model import ModelPiece

EVENT = Event(id="event-7", author="clerk", invocation_id="i", created_at=datetime(2026, 1, 1, tzinfo=UTC))


@given(st.text(max_size=60), st.integers(0, 99))
def test_an_id_of_a_call_is_one_that_every_provider_takes(event_id: str, place: int) -> None:
    for id_ in (call_id(event_id, place), call_id(SystemIssuer().new_id("event"), place)):
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", id_)
        assert len(question_id(id_)) <= 40


@given(st.sets(st.tuples(st.text(max_size=40), st.integers(0, 99)), min_size=2, max_size=2))
def test_two_calls_never_share_an_id(calls: set[tuple[str, int]]) -> None:
    """As long as no id of an event is another's with a prefix: issuers give one kind of id."""
    (one, one_at), (two, two_at) = calls
    if one.removeprefix("event-") != two.removeprefix("event-") or one_at != two_at:
        assert call_id(one, one_at) != call_id(two, two_at)


def test_a_piece_is_a_partial_event_of_its_event() -> None:
    """A19."""
    pieces = [
        ModelPiece("text", "Hel"),
        ModelPiece("thinking", "hm"),
        ModelPiece("arguments", '{"a', 1, "look"),
        ModelPiece("arguments", "{", 0, "hide"),
    ]
    events = [partial(EVENT, piece, {"hide"}) for piece in pieces]
    assert all((event.id, event.partial) == ("event-7", True) for event in events)
    assert [event.content and event.content.parts for event in events] == [
        (TextPart(text="Hel"),),
        (ThinkingPart(text="hm"),),
        (ToolCallPart(call_id="call-7-1", tool="look", raw='{"a'),),
        (ToolCallPart(call_id="call-7-0", tool="hide", raw="{", private=True),),
    ]


def test_the_whole_has_ids_of_ours_in_the_order_of_the_calls() -> None:
    calls = [ToolCallPart(call_id="x", tool="look"), ToolCallPart(call_id="x", tool="hide", arguments={"a": 1})]
    event = whole(EVENT, Content(parts=(TextPart(text="Hello."), *calls)), ["hide"])
    assert event.content is not None
    assert [(c.call_id, c.tool, c.private) for c in event.content.tool_calls] == [
        ("call-7-0", "look", False),
        ("call-7-1", "hide", True),
    ]
    assert (event.text, event.content.tool_calls[1].arguments) == ("Hello.", {"a": 1})
