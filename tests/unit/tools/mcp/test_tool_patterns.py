from typing import Any

import pytest
from jsonschema.validators import validator_for

from turnwise.tools.mcp_toolset import matches, with_safe_patterns, without_dialect

ENDLESS = "^(a+)+$"
TEXT = "a" * 5_000 + "!"
DIALECTS = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]


def problems(schema: Any, instance: Any) -> list[str]:
    kind = with_safe_patterns(validator_for(schema))
    return [problem.message for problem in kind(without_dialect(schema)).iter_errors(instance)]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("schema", "count"),
    [
        ({"pattern": ENDLESS}, 0),  # it is no text
        ({"properties": {TEXT: {"type": "integer"}}, "patternProperties": {ENDLESS: {"type": "null"}}}, 1),
        ({"patternProperties": {ENDLESS: {}}, "additionalProperties": False}, 1),
        ({"patternProperties": {ENDLESS: {}}, "unevaluatedProperties": False}, 0),
        ({"additionalProperties": {"$schema": DIALECTS[-1], "type": "string", "pattern": ENDLESS}}, 1),
    ],
)
def test_no_pattern_takes_forever(dialect: str, schema: dict[str, Any], count: int) -> None:
    assert len(problems({"$schema": dialect} | schema, {TEXT: TEXT})) == count


def test_patterns_say_what_fits() -> None:
    schema = {"patternProperties": {"^x-": {"type": "integer"}}, "properties": {"a": {}}, "additionalProperties": False}
    assert problems(schema, {"a": 1, "x-b": 2}) == []
    assert problems(schema, {"x-b": "two"}) == ["'two' is not of type 'integer'"]
    assert problems(schema, {"b": 1}) == ["Additional properties are not allowed ('b' was unexpected)"]
    assert problems({"pattern": "^[A-Z]+$"}, "ab") == ["'ab' does not match '^[A-Z]+$'"]


@pytest.mark.parametrize(("pattern", "text"), [(r"(?=a)b", "b"), ("a", "\ud800")])
def test_what_re2_cannot_read_is_let_through(pattern: str, text: str) -> None:
    assert matches(pattern, text) is None
    assert problems({"pattern": pattern}, text) == []
    closed = {"patternProperties": {pattern: {"type": "integer"}}, "additionalProperties": False}
    assert problems(closed, {text: "any"}) == []
