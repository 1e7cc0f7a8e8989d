"""What became of a message, as a tool's result."""

from datetime import UTC, datetime
from typing import Any

import pytest
from jsonschema import validate
from pydantic import JsonValue

from turnwise.agents.approval import CONFIRM
from turnwise.facts.callers import Caller
from turnwise.facts.content import ArtifactPart, Content, TextPart, ToolCallPart, text_content
from turnwise.facts.events import Actions, Await, End, ErrorInfo, Event
from turnwise.facts.sessions import SessionKey
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.facts.waits import open_waits
from turnwise.gateway.mcp.schema import Answered, schema_of
from turnwise.gateway.mcp.tool_calls import ARTIFACTS_SHOWN, answer_value, files_in, result_of
from turnwise.gateway.redaction import FAILED, Redactor
from turnwise.runner import Invocation, Result

NOW = datetime(2026, 1, 1, tzinfo=UTC)
COMPLETED = End()
VIEW = Redactor(Caller(id="k", user="ann"), AgentTree([AgentCard(name="a")]))


def event(id_: str, content: str | Content | None = None, **more: Any) -> Event:
    said = text_content(content) if isinstance(content, str) else content
    fields: dict[str, Any] = {"author": "a", "invocation_id": "i", **more}
    return Event(id=id_, created_at=NOW, content=said, **fields)


def answer(*events: Event, end: End | None = COMPLETED, error: ErrorInfo | None = None, waits: Any = ()) -> Answered:
    text = "\n".join(each.text for each in events if each.text)
    invocation = Invocation(SessionKey("app", "ann", "s"), "m")
    return answer_value(invocation, Result(text, end, None, error, "i", events), waits, VIEW)


@pytest.mark.parametrize(
    ("end", "text", "state"),
    [
        (End(), "", "completed"),
        (End(reason="clarify"), "Which?", "completed"),
        (End(reason="loop"), "", "completed"),
        (End(reason="limit:seconds"), "half", "completed"),
        (End(reason="limit:seconds"), "", "failed"),
        (End(reason="cancelled"), "half", "failed"),
        (End(reason="failed"), "", "failed"),
        (End(reason="blocked"), "", "failed"),
        (None, "Which?", "waiting"),
    ],
)
def test_states(end: End | None, text: str, state: str) -> None:
    found = answer(event("1", text or None), end=end)
    assert (found.state, found.text) == (state, text)
    result = result_of(found)
    assert result.is_error is (state == "failed")
    validate(result.structured_content, schema_of(Answered))


def test_why_it_failed_is_told_without_what_an_exception_said() -> None:
    failed = answer(event("1"), end=End(reason="failed"), error=ErrorInfo(code="agent.failed", message="a secret"))
    assert failed.error is not None
    assert failed.error.model_dump() == {"code": "agent.failed", "message": FAILED}
    assert "secret" not in str(result_of(failed))
    limited = answer(event("1"), end=End(reason="limit:seconds"))
    assert limited.error is not None
    assert limited.error.model_dump() == {"code": "limit:seconds", "message": "The answer ran into the limit 'seconds'."}


def test_models_are_told_where_it_goes_on() -> None:
    def last(found: Answered) -> Any:
        return result_of(found).content[-1].model_dump(exclude_none=True)

    assert last(answer(event("1", "hi"))) == {
        "type": "text",
        "text": "[session: s]",
        "annotations": {"audience": ["assistant"]},
    }
    asked = event("1", "Which?", actions=Actions(awaits=Await(id="w")))
    waiting = answer(asked, end=None, waits=open_waits([asked]))
    assert last(waiting)["text"] == "[session: s; a waits for a reply, answer_to: w]"
    assert [each.model_dump(exclude_defaults=True) for each in waiting.waits] == [
        {"call_id": "w", "kind": "reply", "agent": "a", "text": "Which?"}
    ]


def waiting_for(call: ToolCallPart, text: str = "") -> Answered:
    """An answer that waits for the result of that call."""
    awaited = Await(id=call.call_id, kind="tool_result")
    asked = event("1", Content(parts=(*text_content(text).parts, call) if text else (call,)), actions=Actions(awaits=awaited))
    return answer(asked, end=None, waits=open_waits([asked]))


def test_a_question_whether_a_tool_may_be_called_names_the_tool_and_how_to_answer() -> None:
    inside: dict[str, JsonValue] = {"tool": "pay", "arguments": {"amount": 30}, "call": "c"}
    found = waiting_for(ToolCallPart(call_id="c-ok", tool=CONFIRM, arguments=inside, private=True), "May I?")
    assert [each.model_dump() for each in found.waits] == [
        {
            "call_id": "c-ok",
            "kind": "confirmation",
            "agent": "a",
            "text": "May I?",
            "tool": "pay",
            "arguments": {"amount": 30},
        }
    ]
    words = result_of(found).content[-1].model_dump()["text"]
    assert "answer_to: c-ok, and approved: true or false" in words


def test_models_are_not_told_to_make_up_what_a_tool_gives_later() -> None:
    found = waiting_for(ToolCallPart(call_id="c", tool="order", arguments={"number": 1}))
    assert [(each.tool, each.arguments) for each in found.waits] == [("order", {})]
    (said,) = result_of(found).content
    assert said.model_dump()["text"] == "[session: s; a waits for its tool 'order', which is still at work: nothing to answer]"


def test_an_answer_without_words_has_no_empty_text() -> None:
    """Models' interfaces refuse empty texts."""
    assert [each.model_dump()["text"] for each in result_of(answer(event("1"))).content] == ["[session: s]"]


def test_files_that_agents_kept_or_showed() -> None:
    shown = Content(parts=(TextPart(text="Here."), ArtifactPart(name="b", version=1, mime_type="image/png")))
    events = (
        event("1", "hi", author="user", actions=Actions(artifact_versions={"upload": 1})),
        event("2", actions=Actions(artifact_versions={"a": 1})),
        event("3", shown, actions=Actions(artifact_versions={"a": 2})),
        event("4", actions=Actions(artifact_versions={"hidden": 1}), branch="1/>b#1"),
    )
    kept = {each.name: each for each in files_in("s", events)}
    assert {name: each.version for name, each in kept.items()} == {"a": 2, "b": 1}
    assert kept["b"].mime_type == "image/png"
    assert kept["a"].uri == "turnwise://sessions/s/artifacts/a?version=2"
    assert [each.type for each in result_of(answer(*events)).content] == ["text", "resource_link", "resource_link", "text"]


def test_not_more_files_than_a_reader_can_use() -> None:
    many = event("1", actions=Actions(artifact_versions={str(number): 1 for number in range(500)}))
    assert len(answer(many).artifacts) == ARTIFACTS_SHOWN
