"""JSON schemas: which can be used, and what plainly does not fit one."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from turnwise.flows.result_types import schema_flaw, schema_problems

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": ["integer", "null"]},
        "tags": {"type": "array", "items": {"enum": ["new", "old"]}},
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ([], "a schema is an object, not []"),
        ({"type": "text"}, '"text" is no type, these are: null, boolean'),
        ({"type": ["string", 7]}, "7 is no type"),
        ({"properties": ["name"]}, "'properties' is an object of schemas"),
        ({"required": "name"}, "'required' is a list of names"),
        ({"required": [1]}, "'required' is a list of names"),
        ({"enum": []}, "'enum' is a list of one value or more"),
        ({"enum": "new"}, "'enum' is a list of one value or more"),
        ({"items": {"type": "text"}}, 'items: "text" is no type'),
        ({"items": []}, "items: a schema is an object"),
        ({"properties": {"name": {"properties": {"first": 3}}}}, "property 'name': property 'first': a schema is an object"),
    ],
)
def test_flaws_are_named(schema: Any, words: str) -> None:
    assert words in schema_flaw(schema)


@pytest.mark.parametrize("schema", [{}, PERSON, {"properties": {"any": True, "none": False}}, {"$ref": "#/$defs/x"}])
def test_schemas_without_a_flaw(schema: Any) -> None:
    assert schema_flaw(schema) == ""


@pytest.mark.parametrize(
    "value", [{"name": "Ada"}, {"name": "", "age": None, "tags": []}, {"name": "Ada", "age": 36.0, "tags": ["new", "old"]}]
)
def test_what_fits(value: Any) -> None:
    assert list(schema_problems(PERSON, value)) == []


@pytest.mark.parametrize(
    ("schema", "value", "problems"),
    [
        (PERSON, [], ["it has to be of type object, not []"]),
        (PERSON, {}, ["it.name is missing"]),
        (PERSON, {"name": 7}, ["it.name has to be of type string, not 7"]),
        (PERSON, {"age": "x"}, ["it.name is missing", 'it.age has to be of type integer or null, not "x"']),
        (PERSON, {"name": "Ada", "nick": 1}, ["it.nick is not allowed"]),
        (PERSON, {"name": "Ada", "tags": ["new", "x"]}, ['it.tags[1] has to be "new" or "old", not "x"']),
        ({"type": "integer"}, True, ["it has to be of type integer, not true"]),
        ({"type": "integer"}, 1.5, ["it has to be of type integer, not 1.5"]),
        ({"type": "number"}, False, ["it has to be of type number, not false"]),
        ({"type": "boolean"}, 1, ["it has to be of type boolean, not 1"]),
        ({"const": 1}, True, ["it has to be 1, not true"]),
        ({"properties": {"x": False}}, {"x": 1}, ["it.x is not allowed"]),
    ],
)
def test_what_does_not_fit(schema: dict[str, Any], value: Any, problems: list[str]) -> None:
    assert list(schema_problems(schema, value)) == problems


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, {"anything": [1]}),
        ({"pattern": "^a"}, "b"),
        ({"additionalProperties": False, "patternProperties": {"^x": {}}}, {"x1": 1}),
        ({"type": "number"}, 3),
        ({"const": 1}, 1.0),
    ],
)
def test_what_is_not_plain_is_let_through(schema: dict[str, Any], value: Any) -> None:
    assert list(schema_problems(schema, value)) == []


def test_a_schema_may_be_deep_but_not_without_end() -> None:
    schema: dict[str, Any] = {}
    for _ in range(50):
        schema = {"items": schema}
    assert schema_flaw(schema) == ""
    assert schema_flaw({"items": schema}).endswith("more than 50 deep")


def test_a_long_value_is_cut() -> None:
    (problem,) = schema_problems({"type": "integer"}, "x" * 10_000)
    assert len(problem) < 120


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3))


def schema_of(value: Any) -> dict[str, Any]:
    """The narrowest schema that the value fits."""
    if isinstance(value, dict):
        within = {name: schema_of(each) for name, each in value.items()}
        return {"type": "object", "properties": within, "required": list(value), "additionalProperties": False}
    return {"const": value}


@given(VALUES, VALUES)
def test_a_value_fits_its_own_schema_and_of_others_only_equal_ones_do(value: Any, other: Any) -> None:
    schema = schema_of(value)
    assert schema_flaw(schema) == ""
    assert list(schema_problems(schema, value)) == []
    if not list(schema_problems(schema, other)):
        assert other == value


@given(VALUES)
def test_no_schema_that_somebody_writes_raises(schema: Any) -> None:
    if schema_flaw(schema) == "":
        list(schema_problems(schema, {"a": [1, "x"], "type": None}))
