"""What is on record of a message, or of a whole invocation, now."""

from datetime import UTC, datetime
from typing import Any

from turnwise.facts.content import text_content
from turnwise.facts.events import USER, Actions, Await, End, Event, StepRecord
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Session, fold
from turnwise.runner.record.events import Origin
from turnwise.runner.sessions import InvocationStatus, invocation_status

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIRST, SECOND = Origin("s", "m-1").event_id, Origin("s", "m-2").event_id
CHOSEN = Selection(agent="desk", method="m", confidence=1.0, reason="")


def event(author: str, text: str, id_: str = "", **actions: Any) -> Event:
    content = text_content(text, "user" if author == USER else "agent") if text else None
    actions = {"selection": CHOSEN, **actions} if author == USER else actions
    return Event(id=id_ or text, author=author, invocation_id="i", created_at=NOW, content=content, actions=Actions(**actions))


def read(*events: Event, held: bool = False, of: str | None = FIRST) -> InvocationStatus:
    numbered = [each.replace(sequence=number) for number, each in enumerate(events, 1)]
    empty = Session(app="a", user="u", id="s", created_at=NOW, updated_at=NOW, holder="p" if held else None)
    reading = invocation_status(fold(empty, numbered), numbered, of)
    assert reading is not None
    return reading


ASKED = event(USER, "hi", FIRST)
WAITS = event("desk", "Which?", awaits=Await(id="w"))
REPLY = event(USER, "that", SECOND, answers="w")
ENDED = event("desk", "done", end=End())


def told(reading: InvocationStatus) -> tuple[str, str, str]:
    assert reading.result is not None
    return reading.message_id, reading.state, reading.result.text


def test_one_that_ended() -> None:
    assert told(read(ASKED, event("desk", "so"), ENDED)) == ("m-1", "ended", "so\ndone")


def test_one_that_goes_on_has_what_was_said_so_far() -> None:
    assert told(read(ASKED, event("desk", "so"), held=True)) == ("m-1", "running", "so")


def test_one_whose_process_died_runs() -> None:
    assert told(read(ASKED, event("desk", "so")))[1] == "running"


def test_one_that_asked_waits() -> None:
    reading = read(ASKED, WAITS)
    assert told(reading) == ("m-1", "waiting", "Which?")
    assert reading.waits == {"w"}


def test_one_that_asked_while_others_of_it_are_still_at_work_runs() -> None:
    assert told(read(ASKED, WAITS, held=True))[1] == "running"


def test_a_question_that_was_answered_since_is_over() -> None:
    for rest, state in (([], "running"), ([ENDED], "ended")):
        assert told(read(ASKED, WAITS, REPLY, *rest)) == ("m-1", "ended", "Which?")
        assert told(read(ASKED, WAITS, REPLY, *rest, of=SECOND))[:2] == ("m-2", state)


def test_the_whole_of_it_has_all_messages() -> None:
    assert told(read(ASKED, WAITS, REPLY, ENDED, of=None)) == ("m-1", "ended", "Which?\ndone")
    assert told(read(ASKED, WAITS, REPLY, held=True, of=None)) == ("m-1", "running", "Which?")


def test_what_steps_gave_is_for_their_agent_alone() -> None:
    result = read(ASKED, event("desk", "x", steps=(StepRecord(key="k", value="secret"),)), ENDED).result
    assert result is not None
    assert [step.value for each in result.events for step in each.actions.steps] == [None]


def test_there_may_be_no_such_message() -> None:
    session = Session(app="a", user="u", id="s", created_at=NOW, updated_at=NOW)
    assert invocation_status(session, []) is None
    assert invocation_status(session, [ASKED], "another") is None
