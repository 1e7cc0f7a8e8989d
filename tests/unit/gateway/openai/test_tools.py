"""Tools and calls as chat completions and responses have them alike."""

import pytest
from logs import call, event

from turnwise.facts.content import ToolCallPart
from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.openai.tools import arguments_of, call_of, check_choice, made_in, not_a_function, offered, value_of


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


def test_who_would_decide_in_the_agents_place() -> None:
    check_choice(tools=True, choice="auto", parallel=True)
    check_choice(tools=False, choice="none", parallel=False)
    for choice, parallel, where in (("required", None, "tool_choice"), (None, False, "parallel_tool_calls")):
        with pytest.raises(RequestInvalid) as refused:
            check_choice(tools=True, choice=choice, parallel=parallel)
        assert refused.value.where == ("body", where)


def test_the_type_of_a_tool_is_not_repeated_for_ever() -> None:
    assert len(not_a_function(("tools", 0, "type"), "x" * 9_999).problem) < 200
