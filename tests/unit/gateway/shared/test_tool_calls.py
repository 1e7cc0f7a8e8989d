"""Tools of the caller's own, and calls of tools, as they are written."""

import pytest
from logs import call, event

from turnwise.facts.content import ToolCallPart
from turnwise.gateway.shared.tool_calls import arguments_of, call_of, made_in, offered, value_of


def test_json_is_read_where_it_is_an_object_or_a_list() -> None:
    assert value_of('{"approved": true}') == {"approved": True}
    assert value_of(" [1, 2]") == [1, 2]
    for text in ("true", "12", "", "{broken", "[" * 100_000, '{"x": NaN}', "plain words"):
        assert value_of(text) == text


@pytest.mark.parametrize("written", ['{"city":"Oslo"}', "{}", "[1]", '{"city": ', "12", "[" * 100_000])
def test_arguments_are_written_as_they_were_read(written: str) -> None:
    assert arguments_of(call_of("k1", "look", written)) == written


def test_no_arguments_are_none() -> None:
    assert call_of("k1", "look", "") == ToolCallPart(call_id="k1", tool="look", arguments={})


def test_who_is_to_answer_the_calls_of_a_log() -> None:
    own, theirs = call("k1"), call("k2").model_copy(update={"offered": True})
    made = made_in([event("user", "hi"), event("a", "one", own), event("a", theirs)])
    assert [(each.call.call_id, each.kind) for each in made] == [("k1", "late"), ("k2", "offered")]


def test_a_tool_without_parameters_takes_none() -> None:
    assert offered("look", None, None).parameters == offered("look", "", None).parameters
    assert offered("look", "Looks.", {"type": "object"}).parameters == {"type": "object"}
