from typing import Any

import pytest

from turnwise.facts.errors import ToolFailed
from turnwise.tools.mcp_toolset import check_arguments

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {"$ref": "#/$defs/day"}}},
    "required": ["city"],
    "$defs": {"day": {"type": "integer", "minimum": 1}},
}


def test_what_fits_passes() -> None:
    check_arguments(SCHEMA, {"city": "Ulm", "days": [1, 2]})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "'city' is a required property"),
        ({"city": 3}, "\"city\": 3 is not of type 'string'"),
        ({"city": "Ulm", "days": [1, 0]}, '"days[1]": 0 is less than the minimum of 1'),
        ({"city": "Ulm", "days": "x" * 10_000}, "…"),
    ],
)
def test_what_does_not_fit_is_told(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolFailed) as failed:
        check_arguments(SCHEMA, arguments)
    assert words in str(failed.value)
    assert failed.value.fix == "Parameters: city, days."
    assert len(str(failed.value)) < 500


def test_a_pattern_of_a_server_cannot_hold_up_the_process() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    check_arguments(schema, {"x": "a" * 5_000})
    with pytest.raises(ToolFailed, match="do not fit"):
        check_arguments(schema, {"x": "a" * 5_000 + "!"})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"$ref": "#/nowhere"},
        {"properties": {"city": {"$ref": "https://example.com/city.json"}}},
        {"$ref": "#"},
    ],
)
def test_a_schema_that_cannot_be_used_leaves_it_to_the_server(schema: dict[str, Any]) -> None:
    check_arguments(schema, {"city": "Ulm"})
