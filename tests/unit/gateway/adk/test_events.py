"""Events as the ADK has them, for one reader."""

from datetime import UTC, datetime
from typing import Any

import pytest

from turnwise.facts.callers import Caller
from turnwise.facts.content import Content, DataPart, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import Actions, Await, End, ErrorInfo, Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.facts.usage import Usage
from turnwise.gateway.adk.events import EventWriter, write_events
from turnwise.gateway.redaction import Redactor

KEY = SessionKey("app", "ada", "s")
TREE = AgentTree([AgentCard(name="a")])
INSIDE, USER = (Redactor(Caller(id="c", role=role), TREE) for role in ("admin", "user"))
SERVER = Redactor(Caller(id="c", role="user", acts_for_users=True), TREE)
PAY = ToolCallPart(call_id="c-1", tool="pay", arguments={"amount": 3})


def event(*parts: Part | str, author: str = "a", **known: Any) -> Event:
    """An event of author a; what is no field of it is one of its actions."""
    actions = {name: known.pop(name) for name in [*known] if name in Actions.model_fields}
    said = tuple(TextPart(text=part) if isinstance(part, str) else part for part in parts)
    return Event(
        id=known.pop("id", "e"),
        author=author,
        invocation_id=known.pop("invocation_id", "i"),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        content=Content(role="user" if author == "user" else "agent", parts=said) if said else None,
        actions=Actions(**actions),
        **known,
    )


def one(event: Event, view: Redactor = INSIDE) -> dict[str, Any]:
    """What is told of it, as it is written."""
    (shown,) = write_events([event], KEY, view)
    return shown.model_dump(by_alias=True, exclude_none=True)


def test_what_says_and_does_nothing_is_not_told() -> None:
    silent = [
        event(),
        event(end=End()),
        event(awaits=Await(id="w")),
        event(ThinkingPart(text="Hm.")),
        event("inside", branch="1/>b"),
        event(DataPart(data=1, private=True)),
        event(PAY, partial=True),
    ]
    assert write_events(silent, KEY, USER) == []
    assert [shown.content is not None for shown in write_events(silent, KEY, INSIDE)] == [True]


def test_its_fields() -> None:
    shown = one(event("hi", end=End(), usage=Usage(model="m", input_tokens=3, cached_tokens=1, output_tokens=2)))
    assert shown == {
        "id": "e",
        "author": "a",
        "invocationId": "i",
        "timestamp": datetime(2026, 1, 1, tzinfo=UTC).timestamp(),
        "content": {"parts": [{"text": "hi"}], "role": "model"},
        "modelVersion": "m",
        "usageMetadata": {
            "promptTokenCount": 3,
            "cachedContentTokenCount": 1,
            "candidatesTokenCount": 2,
            "totalTokenCount": 5,
        },
        "actions": {"stateDelta": {}, "artifactDelta": {}, "requestedAuthConfigs": {}, "requestedToolConfirmations": {}},
        "nodeInfo": {"path": "a"},
    }
    piece = one(event("h", partial=True, offset=0))
    assert (piece["partial"], piece["id"]) == (True, "e")
    assert one(event("hi", cut_off="tokens"))["finishReason"] == "MAX_TOKENS"
    assert one(event("hi", author="user"))["content"]["role"] == "user"
    assert one(event(ToolResultPart(call_id="c", tool="t", result=1)))["content"]["role"] == "user"


def test_what_it_does() -> None:
    shown = one(event(transfer_to="b", escalate=True, state_delta={"a": None}, artifact_versions={"x": 3}))
    assert shown["actions"]["transferToAgent"] == "b"
    assert shown["actions"]["escalate"] is True
    assert (shown["actions"]["stateDelta"], shown["actions"]["artifactDelta"]) == ({"a": None}, {"x": 2})
    assert one(event("x", state_delta={"app:a": 1, "b": 1}), USER)["actions"]["stateDelta"] == {"b": 1}


@pytest.mark.parametrize(
    ("branch", "shown"), [("1", None), ("", None), ("1/~x", "x"), ("1/~x/2/~y", "x.y")], ids=["root", "none", "child", "below"]
)
def test_where_it_arose(branch: str, shown: str | None) -> None:
    assert one(event("x", branch=branch)).get("branch") == shown


def test_what_failed_is_told_once() -> None:
    error = ErrorInfo(code="agent.failed", message="boom")
    failed, ended = event(error=error), event(end=End(reason="failed", detail="boom"))
    assert [shown.error_code for shown in write_events([failed, ended], KEY, INSIDE)] == ["agent.failed"]
    (hidden,) = write_events([failed, ended], KEY, USER)
    assert hidden.error_message == "The agent failed."
    assert [shown.error_code for shown in write_events([ended], KEY, USER)] == ["failed"]
    limit, cancelled = one(event(end=End(reason="limit:turns"))), one(event("x", end=End(reason="cancelled")))
    assert (limit["errorCode"], "turns" in limit["errorMessage"]) == ("limit:turns", True)
    assert (cancelled["errorCode"], cancelled["interrupted"]) == ("cancelled", True)
    for good in ("completed", "clarify", "loop", "limit:transfers"):
        assert "errorCode" not in one(event("x", end=End(reason=good)))


def test_the_decision_stands_with_the_first_whole_event_after_it() -> None:
    asked = event(
        "hi", author="user", selection=Selection(agent="a", method="direct", confidence=1.0, reason="It was asked for.")
    )
    shown = write_events([asked, event("h", partial=True), event("hi"), event("more")], KEY, USER)
    behind = {"turnwise": {"agent": "a", "method": "direct", "reason": "It was asked for."}}
    assert [each.custom_metadata for each in shown] == [None, None, behind, None]


def test_a_call_that_takes_long_is_told_again_to_who_answers_it() -> None:
    events = [event(PAY, id="e-1"), event(id="e-2", awaits=Await(id="c-1", kind="tool_result"))]
    for view in (INSIDE, SERVER):
        made, waits = write_events(events, KEY, view)
        assert (made.long_running_tool_ids, waits.long_running_tool_ids) == (None, ["c-1"])
        assert waits.content is not None
        assert waits.content.model_dump(exclude_none=True)["parts"] == [
            {"function_call": {"id": "c-1", "name": "pay", "args": {"amount": 3}}}
        ]
    (made,) = write_events(events, KEY, USER)
    assert made.long_running_tool_ids is None
    # Of one whose call was made before what is read there is nothing to tell.
    assert write_events(events[1:], KEY, INSIDE) == []


def test_a_call_of_the_callers_own_tool_is_the_callers() -> None:
    offered = PAY.replace(offered=True)
    shown = write_events([event(offered), event(awaits=Await(id="c-1", kind="tool_result"))], KEY, USER)
    assert [each.long_running_tool_ids for each in shown] == [["c-1"]]


def test_pieces_of_calls_are_not_told() -> None:
    telling = EventWriter(KEY, INSIDE)
    shown = telling.write(event("I look ", PAY, partial=True))
    assert shown is not None
    assert shown.content is not None
    assert [part.text for part in shown.content.parts or ()] == ["I look "]


def chosen(agent: str, reason: str = "r") -> Selection:
    return Selection(agent=agent, method="m", confidence=1.0, reason=reason)


def test_decisions_on_the_way_are_told_too() -> None:
    """Those of a flow, say, whose tasks say nothing: one after the other, in their order."""
    asked = event("hi", author="user", selection=chosen("a"))
    shown = write_events(
        [asked, event(selection=chosen("b")), event(selection=chosen("c")), event("hi"), event("more")], KEY, USER
    )
    decided = [each.custom_metadata and each.custom_metadata["turnwise"] for each in shown]
    assert [each["agent"] if isinstance(each, dict) else None for each in decided] == [None, "a", "b", "c", None]
    # One of which nothing came is not taken for the next message's.
    shown = write_events([asked, event("ho", author="user", selection=chosen("b")), event("hi")], KEY, USER)
    assert shown[-1].custom_metadata == {"turnwise": {"agent": "b", "method": "m", "reason": "r"}}


def test_of_private_calls_there_is_what_was_kept_alone() -> None:
    inside = event(
        "secret",
        branch="1/>b#1",
        author="b",
        state_delta={"x": 1},
        artifact_versions={"f": 1},
        selection=chosen("c"),
        escalate=True,
    )
    for view in (INSIDE, USER):
        kept, said = write_events([inside, event("done")], KEY, view)
        assert (kept.content, kept.actions.state_delta, kept.actions.artifact_delta) == (None, {"x": 1}, {"f": 0})
        assert (kept.actions.escalate, kept.custom_metadata, said.custom_metadata) == (None, None, None)
