"""What became of a message."""

from typing import Any

import pytest
from logs import asks, call, event, result

from turnwise.facts.callers import Caller
from turnwise.facts.events import Await, End, ErrorInfo, Event, Rewind
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.facts.usage import Usage
from turnwise.gateway.openai.responses.response import ResponseId, final_response
from turnwise.gateway.openai.responses.schema import ResponseObject
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.stream import DecisionInfo

NAME = ResponseId("s", "m")
BEHIND = DecisionInfo(session_id="s", message_id="m")
BLANK = ResponseObject(id=NAME.id, created_at=1, model="turnwise", turnwise=BEHIND)
USER = Caller(id="c", user="ann")


def numbered(*events: Event) -> list[Event]:
    return [each.replace(id=f"e{n}", sequence=n) for n, each in enumerate(events, 1)]


def view(caller: Caller = USER) -> Redactor:
    return Redactor(caller, AgentTree([AgentCard(name="a")]))


def became(*events: Event, caller: Caller = USER) -> ResponseObject:
    return final_response(NAME, BLANK, numbered(event("user", "hi"), *events), view(caller))


@pytest.mark.parametrize(
    ("end", "actions", "status", "incomplete"),
    [
        ("completed", {}, "completed", None),
        ("clarify", {}, "completed", None),
        ("loop", {}, "completed", None),
        ("cancelled", {}, "cancelled", None),
        ("failed", {}, "failed", None),
        ("limit:steps", {}, "incomplete", "max_messages"),
        ("limit:transfers", {}, "completed", None),
        ("limit:invocation_seconds", {}, "incomplete", "max_invocation_seconds"),
        ("limit:wait_seconds", {}, "completed", None),
        ("completed", {"cut_off": "tokens"}, "incomplete", "max_output_tokens"),
        ("completed", {"blocked_by": "g"}, "incomplete", "content_filter"),
    ],
)
def test_its_end_is_its_status(end: str, actions: dict[str, Any], status: str, incomplete: str | None) -> None:
    made = became(event("a", "said", **actions), event("a", end=End(reason=end)))
    assert (made.status, made.incomplete_details and made.incomplete_details.reason) == (status, incomplete)
    assert (made.incomplete_details is not None) == (status == "incomplete")
    assert (made.completed_at is not None) == (status == "completed")
    assert (made.error is not None) == (status == "failed")
    assert [item.type for item in made.output] == ["message"]


def test_what_waits_is_complete() -> None:
    made = became(event("a", call("k1")), event("a", awaits=Await(id="k1", kind="tool_result")))
    assert (made.status, [item.type for item in made.output]) == ("completed", [])
    assert made.turnwise.pending
    waits = [event("a", call("k1").replace(offered=True)), event("a", awaits=Await(id="k1", kind="tool_result"))]
    made = became(*waits)
    assert (made.status, [item.type for item in made.output]) == ("completed", ["function_call"])
    assert not made.turnwise.pending


def test_nobody_answered_in_time_changes_nothing_of_it() -> None:
    waits = [event("a", call("k1")), event("a", awaits=Await(id="k1", kind="tool_result"))]
    lapsed = became(*waits, event("a", result("k1", "cancelled"), end=End(reason="limit:waits")))
    assert (lapsed.status, lapsed.output) == (became(*waits).status, became(*waits).output)
    assert not lapsed.turnwise.pending


def test_users_are_not_told_what_was_raised() -> None:
    events = [
        event("a", error=ErrorInfo(code="agent.failed", message="KeyError: secret")),
        event("a", end=End(reason="failed")),
    ]
    told = became(*events).error
    assert told is not None
    assert told.message == "The agent failed."
    inside = became(*events, caller=Caller(id="c", role="operator")).error
    assert inside is not None
    assert inside.message == "KeyError: secret"


def test_which_time_ran_out_is_said() -> None:
    failed = became(event("a", end=End(reason="limit:invocation_seconds"))).error
    assert failed is not None
    assert failed.message == "The answer ran into the limit 'invocation_seconds'."


def test_what_models_took_adds_up() -> None:
    used = Usage(model="m", input_tokens=10, cached_tokens=4, output_tokens=3)
    made = became(event("a", "one", usage=used), event("a", "two", usage=used, end=End()))
    assert made.usage is not None
    assert made.usage.model_dump() == {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 0},
        "output_tokens": 6,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 26,
    }


def test_what_a_dead_attempt_left_is_no_part_of_it() -> None:
    again = event("a", rewind=Rewind(from_sequence=2, invocation_id="i1"))
    made = became(event("a", "left"), again, event("a", "said", end=End()))
    assert [item.text for item in made.output if item.type == "message"] == ["said"]


def test_nothing_on_record_was_cancelled_in_the_line() -> None:
    assert final_response(NAME, BLANK, (), view()).status == "cancelled"


def test_who_was_selected_and_why_is_told() -> None:
    made = final_response(NAME, BLANK, numbered(asks("hi"), event("a", "said", end=End())), view())
    assert made.turnwise.model_dump() == {
        "session_id": "s",
        "message_id": "m",
        "invocation_id": "i1",
        "agent": "a",
        "reason": "r",
        "pending": False,
    }
