"""What a conversation has in common with a log."""

from datetime import UTC, datetime
from typing import Any

from turnwise.facts.content import BlobPart, Content, TextPart, ToolCallPart, ToolResultPart, text_content
from turnwise.facts.events import USER, Actions, End, Event
from turnwise.facts.sessions import Head, OpenInvocation, Session
from turnwise.gateway.shared.exchanges import Match, PastTurn, logged_turns, match, message_ids, past_exchanges, session_base
from turnwise.runner.record.events import Origin

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SESSION = Session(app="a", user="u", id="s", created_at=NOW, updated_at=NOW)


def sent(text: str) -> Content:
    return text_content(text, "user")


def turns(*texts: str) -> list[PastTurn]:
    """Messages and answers in turn."""
    return [PastTurn(sent(asked), answer) for asked, answer in zip(texts[::2], texts[1::2], strict=True)]


def log(past: list[PastTurn], message: str = "new", **ended: Any) -> list[Event]:
    """A log that is these turns, each an invocation of its own."""
    found = []
    for number, (turn, id_) in enumerate(zip(past, message_ids(past, sent(message)), strict=False)):
        made: dict[str, Any] = {"invocation_id": f"i{number}", "created_at": NOW}
        found.append(Event(id=Origin("s", id_).event_id, author=USER, content=turn.sent, **made))
        answer = text_content(turn.text) if turn.text else None
        end = ended.get(made["invocation_id"], End())
        found.append(Event(id=f"e{number}", author="a", content=answer, actions=Actions(end=end), **made))
    return found


def matched(past: list[PastTurn], events: list[Event], session: Session = SESSION) -> Match:
    stored = [event.replace(sequence=number) for number, event in enumerate(events, 1)]
    return match(past, message_ids(past, sent("new")), logged_turns(stored), session)


def test_ids_are_made_of_all_that_was_said_and_heard() -> None:
    past = turns("a", "1", "b", "2")
    ids = message_ids(past, sent("c"))
    assert len(set(ids)) == 3
    assert message_ids(turns("a", "1", "b", "other"), sent("c"))[:2] == ids[:2]
    assert message_ids(turns("a", "1", "b", "other"), sent("c"))[2] != ids[2]
    assert message_ids(turns("a", " 1\n", "b ", "2"), sent("c")) == ids
    assert message_ids([past[0]._replace(calls=(ToolCallPart(call_id="c", tool="t"),)), past[1]], sent("c"))[1] != ids[1]


def test_ids_tell_files_and_results_apart() -> None:
    def id_of(*parts: Any) -> str:
        return message_ids((), Content(parts=parts))[0]

    different = [
        id_of(TextPart(text="a")),
        id_of(BlobPart(data=b"a")),
        id_of(BlobPart(data=b"b")),
        id_of(BlobPart(data=b"a", mime_type="image/png")),
        id_of(ToolResultPart(call_id="1", result="a")),
        id_of(ToolResultPart(call_id="2", result="a")),
    ]
    assert len(set(different)) == len(different)


def test_an_opening_names_its_sessions() -> None:
    base = session_base((), sent("a"))
    assert session_base(turns("a", "1"), sent("b")) == base
    assert session_base([PastTurn(Content(), "Welcome."), *turns("a", "1")], sent("b")) == base
    assert session_base((), sent("b")) != base


def test_a_log_that_is_the_conversation_or_more_or_less() -> None:
    past = turns("a", "1", "b", "2")
    assert matched(past, log(past)) == Match(2)
    assert matched(past[:1], log(past)) == Match(1, "i1")
    assert matched(past, log(past[:1])) == Match(1)
    assert matched(past, log(turns("a", "1", "x", "2"))) == Match(1, "i1")
    assert matched(past, log(turns("x", "1"))) == Match()
    assert matched([], log(past)) == Match()


def test_an_answer_counts_as_heard_from_its_beginning_on() -> None:
    past = turns("a", "one two three")
    for heard in ("one two three", "onetwo\nthree ", "one tw", ""):
        assert matched(turns("a", heard), log(past)) == Match(1)
    for other in ("two", "one two three four"):
        assert matched(turns("a", other), log(past)) == Match()


def test_what_is_still_being_said_is_not_compared() -> None:
    past, heard = turns("a", ""), turns("a", "one")
    events = log(past)[:1]
    running = SESSION.replace(head=Head(invocations={"i0": OpenInvocation(agent="a")}))
    assert matched(heard, events, running) == Match(1)
    assert matched(heard, events) == Match()


def test_nothing_comes_between_the_messages_of_one_invocation() -> None:
    past = turns("a", "which?", "b", "2")
    events = [event.replace(invocation_id="i0") for event in log(past)]
    assert matched(past[:1], events) == Match()
    assert matched(past, events) == Match(2)


def reported(invocation: str, text: str) -> list[Event]:
    """What a call gave, as somebody else says it, and what is said to that."""
    made: dict[str, Any] = {"invocation_id": invocation, "created_at": NOW}
    result = Content(role="user", parts=(ToolResultPart(call_id="k", result=1),))
    asked = Event(id=Origin("s", "message-1").event_id, author=USER, content=result, **made)
    return [asked, Event(id="late", author="a", content=text_content(text), actions=Actions(end=End()), **made)]


def test_what_others_report_belongs_to_what_waited_for_it() -> None:
    past = turns("a", "Wait.", "b", "2")
    assert matched(past[:1], [*log(past[:1], i0=None), *reported("i0", "Done.")]) == Match(1)
    later = [*log(past, i0=None), *reported("i0", "Done.")]
    assert matched(past, later) == Match(2)
    assert matched(past[:1], later) == Match(1, "i1")


def test_a_log_is_not_cut_within_an_earlier_invocation() -> None:
    """What was waited for since before came behind the place: the session cannot be taken back to there."""
    past = [*turns("a", "Wait.", "b", "2"), PastTurn(Content(parts=(ToolResultPart(call_id="k", result=1),)), "Done.")]
    events = log(past, i0=None)
    events = [e.replace(invocation_id="i0") if e.invocation_id == "i2" else e for e in events]
    assert matched(past, events) == Match(3)
    assert matched(past[:2], events) == Match(1, "i1")


def test_what_was_said_unasked_is_part_of_the_log() -> None:
    past = turns("a", "1", "b", "2")
    events = log(past)
    unasked = Event(id="x", author="a", invocation_id="x", created_at=NOW, content=text_content("By the way."))
    assert matched(past, [unasked, *events]) == Match(2)
    assert matched(past[:1], [*events[:2], unasked, *events[2:]]) == Match(1, "x")
    assert matched(past[:1], [*events[:2], unasked]) == Match(1, "x")


def test_past_turns_as_exchanges() -> None:
    call, result = ToolCallPart(call_id="1", tool="t"), ToolResultPart(call_id="1", result="r")
    past = [
        PastTurn(Content(), "Welcome."),
        PastTurn(sent("a"), "Let me see.", (call,)),
        PastTurn(Content(parts=(result,)), "Found."),
        PastTurn(sent("b")),
    ]
    unasked, asked, silent = past_exchanges(past, ["0", "1", "2", "3"])
    assert (unasked.message, [content.text for content in unasked.said]) == (None, ["Welcome."])
    assert (asked.message, asked.id) == (sent("a"), "1")
    assert [content.parts for content in asked.said] == [
        (TextPart(text="Let me see."), call),
        (result,),
        (TextPart(text="Found."),),
    ]
    assert (silent.message, silent.said, silent.id) == (sent("b"), (), "3")
    (blank,) = past_exchanges(turns(" ", "1"), ["0"])
    assert (blank.message, blank.said) == (None, (text_content("1"),))
