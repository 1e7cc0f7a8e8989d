"""Where the opening of a run stands (behaviours D8, A41)."""

from logs import asks, event, numbered

from turnwise.facts.content import Content, text_content
from turnwise.facts.events import USER, Branch, Event
from turnwise.transcript.compile import compile_transcript
from turnwise.transcript.trimming import opening_author, opening_place, run_begins
from turnwise.transcript.view import Budget, View, VisibleLog, visible_log

ME = View("a", Branch("1"), "i1")


def place_of(opening: str, *events: Event, view: View = ME) -> int | None:
    return opening_place(reading(*events, view=view), view, text_content(opening))


def reading(*events: Event, view: View = ME) -> VisibleLog:
    return visible_log(numbered(events), view)


def test_a_message_is_found_in_the_log_whatever_its_role() -> None:
    assert place_of("hello", asks("hello", invocation="i0"), asks("hello"), event("b", "hello", branch="0")) == 1


def test_a_reply_opens_only_runs_that_begin_after_it() -> None:
    log = (asks("yes"), event("a", "sure?"), event(USER, "yes", answers="w"), event("a", transfer_to="b"))
    assert place_of("yes", *log) == 0
    assert place_of("yes", *log, view=View("b", Branch("2"), "i1")) == 2


def test_a_brief_is_found_with_its_giver() -> None:
    brief = text_content("Check it.")
    log = (asks("hello"), event("b", "over", transfer_to="a", brief=brief), event("a", "checked", branch="2"))
    assert place_of("Check it.", *log, view=View("a", Branch("2"), "i1")) == 1
    assert place_of("Check it.", *log, view=View("c", Branch("2"), "i1")) is None
    assert place_of("my card", asks("2", brief=text_content("my card"))) == 0


def test_what_a_called_agent_is_handed_stands_in_no_log() -> None:
    called = View("c", Branch("1/~b/>c#1"), "i1")
    log = (asks("hello"), event("b", "I ask c.", branch="1/~b"), event("a", "I wait.", branch="1"))
    assert place_of("hello", *log, view=called) is None
    assert opening_author(reading(*log, view=called), called) == "b"
    assert opening_author(reading(log[0], view=called), called) == ""
    assert opening_author(reading(*log), ME) is None
    below = View("d", Branch("1/~b/>c#1/d"), "i1")
    assert opening_author(reading(*log, view=below), below) == "b"


def test_a_run_begins_with_its_first_event() -> None:
    log = (asks("hello"), event("b", "hi"), event("a", "other", branch="0"), event("a", "mine"), event("a", "more"))
    assert run_begins(reading(*log), ME) == 3
    assert run_begins(reading(*log[:3]), ME) == 3
    assert opening_place(reading(*log), ME, Content()) is None


def test_what_a_flow_tells_an_agent_stands_in_no_log() -> None:
    """D8: it is the flow's, even where the user, or a brief to the agent, says the same."""
    view = View("a", Branch("1/a#1"), "i1", giver="flow")
    log = (asks("Go."), event("b", "over", transfer_to="a", brief=text_content("Go.")))
    assert place_of("Go.", *log, view=view) is None
    assert opening_author(reading(*log, view=view), view) == "flow"


def test_a_flows_message_opens_the_readers_run() -> None:
    """D8: after what was said before, in a mark that says that it is for the reader."""
    log = numbered([asks("hello"), event("b", "I am b."), event("a", "I count.", branch="1/a#1")])
    made = compile_transcript(log, View("a", Branch("1/a#1"), "i1", giver="flow"), text_content("Count."), Budget(10_000, 100))
    assert [getattr(part, "text", part.kind) for message in made.messages[:2] for part in message.parts] == [
        "hello",
        '<said by="b">I am b.</said>',
        '<said by="flow" to="you">Count.</said>',
        "I count.",
    ]
