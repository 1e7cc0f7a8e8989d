import re
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, strategies as st

from turnwise.agents.approval import question_id
from turnwise.agents.llm.model_call import CallMarks, answer_event, call_id, partial_event
from turnwise.facts.content import Content, TextPart, ThinkingPart, ToolCallPart
from turnwise.facts.events import Event
from turnwise.facts.ids import SystemIssuer
from turnwise.ports.model import LENGTH, ModelPiece, ModelReply

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
        ModelPiece("arguments", "}", 2, "show"),
    ]
    events = [partial_event(EVENT, piece, CallMarks(private={"hide"}, offered={"show"})) for piece in pieces]
    assert all((event.id, event.partial) == ("event-7", True) for event in events)
    assert [event.content and event.content.parts for event in events] == [
        (TextPart(text="Hel"),),
        (ThinkingPart(text="hm"),),
        (ToolCallPart(call_id="call-7-1", tool="look", raw='{"a'),),
        (ToolCallPart(call_id="call-7-0", tool="hide", raw="{", private=True),),
        (ToolCallPart(call_id="call-7-2", tool="show", raw="}", offered=True),),
    ]


def test_the_whole_has_ids_of_ours_in_the_order_of_the_calls() -> None:
    calls = [ToolCallPart(call_id="x", tool="look"), ToolCallPart(call_id="x", tool="hide", arguments={"a": 1})]
    event = answer_event(
        EVENT, ModelReply(Content(parts=(TextPart(text="Hello."), *calls))), CallMarks(private=["hide"]), most=3
    )
    assert event.content is not None
    assert [(c.call_id, c.tool, c.private) for c in event.content.tool_calls] == [
        ("call-7-0", "look", False),
        ("call-7-1", "hide", True),
    ]
    assert (event.text, event.content.tool_calls[1].arguments) == ("Hello.", {"a": 1})
    assert event.actions.cut_off is None


def test_only_we_say_whose_call_it_is() -> None:
    """Whatever a model claims: a call is the caller's to make when the caller offered its tool."""
    calls = [ToolCallPart(call_id="x", tool="look", offered=True), ToolCallPart(call_id="y", tool="show", private=True)]
    event = answer_event(EVENT, ModelReply(Content(parts=tuple(calls))), CallMarks(offered=["show"]), most=3)
    assert event.content is not None
    assert [(c.tool, c.offered, c.private) for c in event.content.tool_calls] == [
        ("look", False, False),
        ("show", True, False),
    ]


def cut(*parts: Any, finish: str = "", most: int = 9) -> tuple[list[Any], str | None]:
    """What is kept of an answer: texts, and of calls their tool, arguments and raw; and why it is not all."""
    event = answer_event(EVENT, ModelReply(Content(parts=parts), finish=finish), CallMarks(), most=most)
    assert event.content is not None
    kept = [
        (p.tool, p.arguments, p.raw) if isinstance(p, ToolCallPart) else getattr(p, "text", "") for p in event.content.parts
    ]
    return kept, event.actions.cut_off


def look(n: int) -> ToolCallPart:
    return ToolCallPart(call_id="x", tool="look", arguments={"n": n})


def test_an_answer_that_ran_into_the_limit_of_tokens_is_marked() -> None:
    """Its words are kept; a call at its end may have lost arguments, whatever it looks like, and is none to make."""
    text, made = TextPart(text="Once"), ("look", {"n": 1}, None)
    lost: Any = ("look", {}, '{"n":2}')
    assert cut(text, finish=LENGTH) == (["Once"], "tokens")
    assert cut(look(1), look(2), finish=LENGTH) == ([made, lost], "tokens")
    assert cut(look(1), text, finish=LENGTH) == ([made, "Once"], "tokens")
    assert cut(ToolCallPart(call_id="x", tool="look"), finish=LENGTH) == ([("look", {}, "{}")], "tokens")
    assert cut(ToolCallPart(call_id="x", tool="look", raw='{"n'), finish=LENGTH) == ([("look", {}, '{"n')], "tokens")
    assert cut(text, look(1), finish="stop") == (["Once", made], None)


def test_no_answer_has_more_parts_than_it_may() -> None:
    """limits.parts: the last call that is kept stands for those that are not."""
    text = TextPart(text="Once")
    assert cut(text, look(1), look(2), look(3), most=3) == (
        ["Once", ("look", {"n": 1}, None), ("look", {}, '{"n":2}')],
        "parts",
    )
    assert cut(text, text, look(3), most=1) == ([("look", {}, '{"n":3}')], "parts")
    assert cut(look(1), text, text, most=2) == ([("look", {"n": 1}, None), "Once"], "parts")
    assert cut(look(1), look(2), finish=LENGTH, most=1) == ([("look", {}, '{"n":1}')], "parts")


@given(st.lists(st.booleans(), max_size=12), st.integers(1, 9), st.sampled_from(["", LENGTH]))
def test_of_an_answer_that_is_cut_every_call_is_kept_or_told_of(are_calls: list[bool], most: int, finish: str) -> None:
    parts = [look(n) if is_call else TextPart(text="t") for n, is_call in enumerate(are_calls)]
    kept, cut_off = cut(*parts, finish=finish, most=most)
    assert len(kept) <= most
    assert (cut_off is None) == (len(parts) <= most and not finish)
    made = [part[1]["n"] for part in kept if isinstance(part, tuple) and part[2] is None]
    assert made == [n for n, is_call in enumerate(are_calls) if is_call][: len(made)]
    if len(made) < sum(are_calls):
        assert isinstance(kept[-1], tuple)
        assert kept[-1][2] is not None
