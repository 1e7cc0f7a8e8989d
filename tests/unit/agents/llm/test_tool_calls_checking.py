from datetime import UTC, datetime
from typing import Any

import pytest

from turnwise.agents.llm.tool_calls import argument_problem, refusal_reason
from turnwise.facts.content import Content, ToolCallPart
from turnwise.facts.events import Actions, Event, Guarded
from turnwise.ports.tool import ToolSpec

SCHEMA = {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"], "additionalProperties": False}


def event(*guarded: Guarded) -> Event:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Event(id="e", author="clerk", invocation_id="i", created_at=now, actions=Actions(guarded=guarded))


@pytest.mark.parametrize(
    ("arguments", "parameters", "words"),
    [
        ({"a": 1}, SCHEMA, ""),
        ({"a": 1, "b": None}, SCHEMA, ""),
        ({}, SCHEMA, "The arguments do not fit: 'a' is missing. Parameters: a, b."),
        ({"a": 1, "c": 2}, SCHEMA, "The arguments do not fit: 'c' is not a parameter. Parameters: a, b."),
        ({"c": 2}, {"type": "object"}, ""),
        ({"c": 2}, {"additionalProperties": False}, "The arguments do not fit: 'c' is not a parameter. Parameters: none."),
        ({"c": 2}, {"required": 5, "properties": True}, ""),
        (
            {"c": 2},
            {"required": [["x"], "a"], "properties": ["c"]},
            "The arguments do not fit: 'a' is missing. Parameters: none.",
        ),
        ({}, {"required": "ab"}, ""),
    ],
)
def test_arguments_that_plainly_do_not_fit_are_found(arguments: Any, parameters: Any, words: str) -> None:
    assert argument_problem(ToolSpec(name="t", parameters=parameters), arguments) == words


def test_a_call_is_refused_that_a_guardrail_blocked() -> None:
    """C13: by whom and why; what was only rewritten, or blocked of another call, is made."""
    call = ToolCallPart(call_id="c", tool="t")
    blocked = Guarded(guardrail="g", action="block", reason="secret", call_id="c")
    assert refusal_reason(call, event(blocked)) == "It was not called: g blocked it: secret"
    assert refusal_reason(call, event(blocked.replace(reason=""))) == "It was not called: g blocked it."
    assert refusal_reason(call, event(blocked.replace(action="rewrite"))) == ""
    assert refusal_reason(call, event(blocked.replace(call_id="d"))) == ""


def test_a_call_is_refused_whose_arguments_are_no_object() -> None:
    call = ToolCallPart(call_id="c", tool="t")
    assert refusal_reason(call, event()) == ""
    words = refusal_reason(call.replace(raw="[" * 500), event())
    assert words.endswith("are: " + "[" * 200)


@pytest.mark.parametrize(("cut_off", "words"), [("tokens", "limit of tokens"), ("parts", "more parts"), ("new", "JSON object")])
def test_the_last_call_of_what_was_cut_off_is_refused_for_that(cut_off: str, words: str) -> None:
    lost, last = (ToolCallPart(call_id=id_, tool="t", raw="{") for id_ in "cd")
    said = event().replace(content=Content(parts=(lost, last)), actions=Actions(cut_off=cut_off))
    assert "JSON object" in refusal_reason(lost, said)
    assert words in refusal_reason(last, said)
    assert refusal_reason(last.replace(raw=None), said) == ""
