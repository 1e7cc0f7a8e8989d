"""What became of a message, in the words of our own API."""

from datetime import UTC, datetime
from typing import Any

from turnwise.agents.approval import CONFIRM
from turnwise.facts.callers import Caller
from turnwise.facts.content import Content, Part, TextPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import USER, Actions, Await, End, ErrorInfo, Event
from turnwise.facts.fact import replaced
from turnwise.facts.sessions import SessionKey
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.gateway.api.representations import answer_of, open_waits_of, pending, read_answer
from turnwise.gateway.redaction import FAILED, Redactor
from turnwise.runner import Invocation, InvocationStatus, Result
from turnwise.wire.messages import OpenCall

NOW = datetime(2026, 1, 1, tzinfo=UTC)
VIEW = Redactor(Caller(id="u", user="ann"), AgentTree([AgentCard(name="desk")]))
KEEPER = Redactor(Caller(id="a", role="admin"), AgentTree([AgentCard(name="desk")]))
KEY = SessionKey("app", "ann", "s")


def event(*parts: Part, author: str = "desk", **actions: Any) -> Event:
    content = Content(parts=parts) if parts else None
    return Event(id="e", author=author, invocation_id="i", created_at=NOW, content=content, actions=Actions(**actions))


def waiting(id_: str, *parts: Part, kind: str = "tool_result") -> Event:
    return event(*parts, awaits=Await.model_validate({"id": id_, "kind": kind}))


def test_a_question_is_a_wait_for_a_reply() -> None:
    asked = waiting("w", TextPart(text="Which?"), kind="reply")
    assert open_waits_of([asked], KEEPER) == [
        OpenCall(invocation_id="i", call_id="w", kind="reply", agent="desk", text="Which?")
    ]
    assert open_waits_of([asked, event(TextPart(text="that"), author=USER, answers="w")], KEEPER) == []


def test_a_call_of_a_tool_is_a_wait_for_its_result() -> None:
    call = ToolCallPart(call_id="c", tool="ship", arguments={"order": 1})
    expected = OpenCall(invocation_id="i", call_id="c", kind="tool_result", agent="desk", tool="ship", arguments={"order": 1})
    assert open_waits_of([waiting("c", call)], KEEPER) == [expected]
    assert open_waits_of([waiting("c", call)], VIEW) == [replaced(expected, arguments={})]
    offered = waiting("c", call.replace(offered=True))
    assert open_waits_of([offered], VIEW) == [expected]
    assert open_waits_of([waiting("c", call), event(ToolResultPart(call_id="c", result=1), author=USER)], KEEPER) == []


def test_a_call_is_found_though_the_wait_comes_in_a_later_event() -> None:
    both = event(ToolCallPart(call_id="c", tool="ship"), ToolCallPart(call_id="d", tool="pay"))
    waits = open_waits_of([both, waiting("c"), waiting("d")], KEEPER)
    assert [(each.call_id, each.tool) for each in waits] == [("c", "ship"), ("d", "pay")]


def test_leave_for_a_call_is_a_confirmation() -> None:
    """A42."""
    asked = ToolCallPart(call_id="c-ok", tool=CONFIRM, arguments={"tool": "pay", "call": "c"}, private=True)
    (wait,) = open_waits_of([waiting("c-ok", TextPart(text="May I?"), asked)], KEEPER)
    expected = ("confirmation", CONFIRM, {"tool": "pay", "call": "c"}, "May I?")
    assert (wait.kind, wait.tool, wait.arguments, wait.text) == expected


def test_the_answer_says_how_it_ended_but_not_what_was_raised() -> None:
    invocation = Invocation(KEY, "m")
    error = ErrorInfo(code="agent.failed", message="password=x")
    result = Result("so far", End(reason="failed", detail="password=x"), None, error, "i", ())
    answer = answer_of(invocation, result, VIEW)
    assert (answer.session_id, answer.message_id, answer.invocation_id, answer.state) == ("s", "m", "i", "ended")
    assert answer.text == "so far"
    assert answer.end == End(reason="failed", detail=FAILED)
    assert answer.error is not None
    assert "password" not in answer.model_dump_json()


def test_what_waits_says_for_what() -> None:
    result = Result("Which?", None, None, None, "i", (waiting("w", TextPart(text="Which?"), kind="reply"),))
    answer = answer_of(Invocation(KEY, "m"), result, VIEW)
    assert (answer.state, [wait.call_id for wait in answer.waits]) == ("waiting", ["w"])


def test_a_message_that_was_cancelled_in_the_queue_has_no_invocation() -> None:
    answer = answer_of(Invocation(KEY, "m"), Result("", End(reason="cancelled"), None, None, "", ()), VIEW)
    assert (answer.state, answer.invocation_id) == ("ended", None)


def test_what_was_only_accepted_runs() -> None:
    assert pending(Invocation(KEY, "m")).state == "running"


def test_a_reading_shows_only_what_is_still_open() -> None:
    events = (waiting("w", kind="reply"), waiting("v", kind="reply"))
    reading = InvocationStatus("m", "waiting", Result("a", None, None, None, "i", events), frozenset({"v"}))
    answer = read_answer("s", reading, VIEW)
    assert (answer.state, [wait.call_id for wait in answer.waits], answer.invocation_id) == ("waiting", ["v"], "i")


def test_a_reading_of_a_queued_message_has_no_more_than_its_id() -> None:
    answer = read_answer("s", InvocationStatus("m", "running", None), VIEW)
    assert (answer.message_id, answer.invocation_id, answer.state, answer.text) == ("m", None, "running", "")
