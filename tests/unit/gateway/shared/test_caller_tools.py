"""Tools of the caller's own, and calls of tools, as they are written."""

import pytest

from turnwise.facts.content import ToolCallPart
from turnwise.gateway.shared.content import arguments_of, call_of, offered_tool, result_value


def test_json_is_read_where_it_is_an_object_or_a_list() -> None:
    assert result_value('{"approved": true}') == {"approved": True}
    assert result_value(" [1, 2]") == [1, 2]
    for text in ("true", "12", "", "{broken", "[" * 100_000, '{"x": NaN}', "plain words"):
        assert result_value(text) == text


@pytest.mark.parametrize("written", ['{"city":"Oslo"}', "{}", "[1]", '{"city": ', "12", "[" * 100_000])
def test_arguments_are_written_as_they_were_read(written: str) -> None:
    assert arguments_of(call_of("k1", "look", written)) == written


def test_no_arguments_are_none() -> None:
    assert call_of("k1", "look", "") == ToolCallPart(call_id="k1", tool="look", arguments={})


def test_a_tool_without_parameters_takes_none() -> None:
    assert offered_tool("look", None, None).parameters == offered_tool("look", "", None).parameters
    assert offered_tool("look", "Looks.", {"type": "object"}).parameters == {"type": "object"}
