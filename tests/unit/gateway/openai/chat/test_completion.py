"""How the ends of answers are told."""

from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.requests import Request

from turnwise.facts.callers import Caller
from turnwise.facts.content import ToolCallPart, text_content
from turnwise.facts.events import Actions, End, ErrorInfo, Event
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.gateway.openai.chat.stream import call_of, failure_of, finish_of
from turnwise.gateway.redaction import Redactor
from turnwise.runner import Result

REQUEST = Request({"type": "http", "headers": [], "state": {"request_id": "r-1"}})
TREE = AgentTree([AgentCard(name="a")])


def result(reason: str | None, text: str = "", error: ErrorInfo | None = None, **actions: Any) -> Result:
    said = Event(
        id="e",
        author="a",
        invocation_id="i",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        content=text_content(text),
        actions=Actions(**actions),
    )
    return Result(text, End(reason=reason) if reason else None, None, error, "i", (said,))


@pytest.mark.parametrize(
    ("found", "finish"),
    [
        (result("completed", "x"), "stop"),
        (result("clarify", "x"), "stop"),
        (result("loop", "x"), "stop"),
        (result("limit:transfers", "x"), "stop"),
        (result(None, "Which?"), "stop"),
        (result("limit:turns", "x"), "length"),
        (result("completed", "x", cut_off="tokens"), "length"),
        (result("completed", "x", blocked_by="g"), "content_filter"),
    ],
)
def test_why_it_ends(found: Result, finish: str) -> None:
    assert finish_of(found, ()) == finish
    assert finish_of(found, [ToolCallPart(call_id="1", tool="t")]) == "tool_calls"


def failure(found: Result, role: Any = "user") -> Any:
    return failure_of(found, Redactor(Caller(id="c", role=role), TREE), REQUEST)


def test_what_is_no_answer() -> None:
    for good in (result("completed"), result("limit:transfers"), result(None), result("limit:turns", "so far")):
        assert failure(good) is None
    broken = result("failed", "x", ErrorInfo(code="agent.failed", message="boom"))
    assert (failure(broken).status, failure(broken).code, failure(broken).problem) == (500, "agent.failed", "The agent failed.")
    assert failure(broken, "admin").problem == "boom"
    assert failure(result("failed", error=ErrorInfo(code="model.unavailable", message=""))).status == 503
    # It was not the caller's mistake, whatever it was.
    assert failure(result("failed", error=ErrorInfo(code="message.too_large", message=""))).status == 500
    assert (failure(result("limit:turns")).status, failure(result("limit:turns")).code) == (500, "limit:turns")
    assert (failure(result("cancelled", "x")).status, failure(result("cancelled", "x")).code) == (409, "cancelled")


def test_calls_as_they_are_written() -> None:
    assert call_of(ToolCallPart(call_id="1", tool="t", arguments={"ü": [1]})).function.arguments == '{"ü":[1]}'
    assert call_of(ToolCallPart(call_id="1", tool="t", raw='{"a":')).function.arguments == '{"a":'
