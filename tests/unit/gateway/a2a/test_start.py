"""Messages that answer what a task waits for."""

from typing import Any

import pytest
from a2a.types import Message, Part, Role, SendMessageRequest
from logs import call, event, question

from turnwise.agents.approval import CONFIRM
from turnwise.facts.content import TextPart, ToolResultPart
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.events import Await
from turnwise.facts.waits import open_waits
from turnwise.gateway.a2a.messages import IncomingMessage
from turnwise.gateway.a2a.start import answer_to

REPLY = event("a", "Which?", awaits=Await(id="w"))
LEAVE = event("a", question("k-ok", "k"), awaits=Await(id="k-ok", kind="tool_result"))
RESULT = event("a", call("k", "look"), awaits=Await(id="k", kind="tool_result"))


def given(text: str = "", metadata: Any = None, **data: Any) -> IncomingMessage:
    part = Part(text=text)
    if data:
        part.data.struct_value.update(data)
    asked = SendMessageRequest(message=Message(message_id="m", role=Role.ROLE_USER, parts=[part]))
    asked.message.metadata.update(metadata or {})
    return IncomingMessage(asked)


def test_a_reply_is_the_message_itself() -> None:
    content, context = answer_to(open_waits([REPLY]), given("red", {"n": 1}))
    assert (content.parts, context.answers, context.attributes) == ((TextPart(text="red"),), "w", {"n": 1})


@pytest.mark.parametrize(
    ("said", "result"),
    [
        (given(approved=True), {"approved": True, "reason": None}),
        (given(approved=False, reason="no"), {"approved": False, "reason": "no"}),
        (given("Yes!"), "Yes!"),
    ],
)
def test_leave_is_given_by_data_or_a_word(said: IncomingMessage, result: Any) -> None:
    """A42."""
    content, context = answer_to(open_waits([LEAVE]), said)
    assert content.parts == (ToolResultPart(call_id="k-ok", tool=CONFIRM, result=result),)
    assert context.answers is None


def test_what_a_tool_gave_is_said_by_data_alone() -> None:
    content, _ = answer_to(open_waits([RESULT]), given(result=[1], failed=True))
    assert content.parts == (ToolResultPart(call_id="k", tool="look", result=[1], failed=True),)
    assert answer_to(open_waits([RESULT]), given(result=None))[0].parts == (ToolResultPart(call_id="k", tool="look"),)
    with pytest.raises(RequestInvalid, match="look"):
        answer_to(open_waits([RESULT]), given("It is done."))


def test_of_several_the_one_that_is_named_or_the_oldest() -> None:
    waits = open_waits([REPLY, LEAVE, RESULT])
    assert answer_to(waits, given("red"))[1].answers == "w"
    assert answer_to(waits, given(callId="k", result=1))[0].tool_results[0].call_id == "k"
    assert answer_to(waits, given("yes", {"callId": "k-ok"}))[0].tool_results[0].call_id == "k-ok"
    with pytest.raises(RequestInvalid, match="does not wait"):
        answer_to(waits, given("yes", {"callId": "other"}))


def test_a_word_that_is_none() -> None:
    with pytest.raises(RequestInvalid, match="not a boolean"):
        answer_to(open_waits([LEAVE]), given(approved="yes"))
