"""Tools that a caller offers: what is taken, and that nothing else comes through."""

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from turnwise.facts.errors import MessageError, MessageTooLarge
from turnwise.facts.limits import Limits
from turnwise.facts.messages import OfferedTool
from turnwise.flows.turns import END_TURN, FAILED, SUCCEEDED
from turnwise.runner.admission import SCHEMA_BYTES, SCHEMA_DEPTH, check_offers
from turnwise.tools.names import is_tool_name, tool_name

LIMITS = Limits(tools=3)
RESERVED = ["transfer_to_agent", "final_answer", "confirm", SUCCEEDED, FAILED, END_TURN]
VALUE: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SCHEMA = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "object", "array"]) | VALUE,
        "properties": st.dictionaries(st.text(max_size=5), st.just({"type": "string"}) | VALUE, max_size=3) | VALUE,
        "required": st.lists(st.text(max_size=5), max_size=2) | VALUE,
        "$defs": VALUE,
    },
)
NAME = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,5}", fullmatch=True) | st.text(max_size=70) | st.sampled_from(RESERVED)


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def nested(levels: int) -> dict[str, Any]:
    """A schema of so many objects in each other."""
    inner: dict[str, Any] = {}
    for _ in range(levels - 2):
        inner = {"not": inner}
    return schema() | {"$defs": inner}


def depth(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(depth, inside), default=0)


@settings(max_examples=200)
@given(st.lists(st.builds(OfferedTool, name=NAME, parameters=SCHEMA), max_size=5))
def test_what_is_taken_can_be_shown_to_any_model_and_passes_for_nothing_else(tools: list[OfferedTool]) -> None:
    """Of whatever is offered; and what is not taken is refused with our error, never another."""
    try:
        check_offers(tools, LIMITS)
    except MessageError:
        return
    names = [tool.name for tool in tools]
    assert len(names) == len(set(names)) <= LIMITS.tools
    for tool in tools:
        assert is_tool_name(tool.name)
        assert tool.name not in RESERVED
        assert len(json.dumps(tool.parameters, allow_nan=False)) <= SCHEMA_BYTES * 6
        assert tool.parameters["type"] == "object"
        assert depth(tool.parameters) <= SCHEMA_DEPTH


@given(
    st.lists(st.from_regex(r"[A-Z_][A-Za-z0-9_-]{0,63}", fullmatch=True), unique=True, max_size=3),
    st.dictionaries(st.text(max_size=5), st.sampled_from([{"type": "string"}, True, {"enum": [1, None]}]), max_size=3),
)
def test_what_is_well_formed_is_taken(names: list[str], properties: dict[str, Any]) -> None:
    parameters = schema(**properties) | {"required": list(properties), "additionalProperties": False}
    check_offers([OfferedTool(name=name, parameters=parameters) for name in names], LIMITS)


def test_a_tool_may_take_nothing() -> None:
    check_offers([OfferedTool(name="now"), OfferedTool(name="here", parameters={"type": "object"})], LIMITS)


@pytest.mark.parametrize("name", [*RESERVED, tool_name("Größe A", f"{SUCCEEDED}_"), f"{SUCCEEDED}_count"])
def test_what_steers_the_runtime_cannot_be_offered(name: str) -> None:
    """Decision 8: a caller's tool never passes for a hand-over, an answer, a question for leave, or the end of a task."""
    with pytest.raises(MessageError, match=f"'{name}' is reserved for ") as refused:
        check_offers([OfferedTool(name=name)], LIMITS)
    assert refused.value.fix == "Rename the tool."


@pytest.mark.parametrize("name", ["", "2nd", "show map", "mail.send", "x" * 65, "größe", "-a", "a\n", "a\x00"])
def test_a_name_that_a_provider_would_refuse_is_refused(name: str) -> None:
    """And not repeated: it may be of any length, and hold anything."""
    with pytest.raises(MessageError, match="Tool 1 of the message has a name that providers refuse"):
        check_offers([OfferedTool(name="fine"), OfferedTool(name=name)], LIMITS)


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(MessageError, match="two tools named 'look'"):
        check_offers([OfferedTool(name="look"), OfferedTool(name="look", description="other")], LIMITS)


def test_so_many_are_taken() -> None:
    tools = [OfferedTool(name=f"t{n}") for n in range(4)]
    check_offers(tools[:3], LIMITS)
    with pytest.raises(MessageTooLarge, match=r"offers 4 tools, 3 are allowed.*limits\.tools"):
        check_offers(tools, LIMITS)
    with pytest.raises(MessageTooLarge):
        check_offers(tools[:1], Limits(tools=0))


def test_a_schema_may_be_so_large() -> None:
    room = SCHEMA_BYTES - len(json.dumps(schema(x={"description": ""})))
    check_offers([OfferedTool(name="t", parameters=schema(x={"description": "d" * room}))], LIMITS)
    for text in ("d" * (room + 1), "é" * (room // 2 + 1)):
        with pytest.raises(MessageTooLarge, match="bytes of JSON, 32,768 are allowed"):
            check_offers([OfferedTool(name="t", parameters=schema(x={"description": text}))], LIMITS)


def test_a_schema_may_be_so_deep() -> None:
    assert depth(nested(SCHEMA_DEPTH)) == SCHEMA_DEPTH
    check_offers([OfferedTool(name="t", parameters=nested(SCHEMA_DEPTH))], LIMITS)
    for levels in (SCHEMA_DEPTH + 1, 200):
        with pytest.raises(MessageTooLarge, match="more than 32 levels deep"):
            check_offers([OfferedTool(name="t", parameters=nested(levels))], LIMITS)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({}, "its 'type' is not 'object'"),
        ({"type": "string"}, "its 'type' is not 'object'"),
        ({"type": ["object"]}, "its 'type' is not 'object'"),
        ({"type": "object", "properties": ["a"]}, "'properties' is no object of schemas"),
        ({"type": "object", "properties": {"a": "string"}}, "'properties' is no object of schemas"),
        ({"type": "object", "required": "a"}, "'required' is no list of names"),
        ({"type": "object", "required": [1]}, "'required' is no list of names"),
        ({"type": "object", "default": float("nan")}, "no JSON: "),
        ({"type": "object", "title": "\ud800"}, "no JSON: "),
    ],
)
def test_what_is_no_schema_of_an_object_is_refused(parameters: dict[str, Any], problem: str) -> None:
    with pytest.raises(MessageError, match="of the tool 't' ") as refused:
        check_offers([OfferedTool(name="t", parameters=parameters)], LIMITS)
    assert problem in refused.value.problem
