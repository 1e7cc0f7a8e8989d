import datetime
import enum
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, JsonValue

from turnwise import AgentContext
from turnwise.facts.errors import ConfigError, ToolFailed
from turnwise.ports.tool import ToolCall
from turnwise.tools.function import Parameters, parameters_of

CONTEXT: Any = object()


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    name: str
    price: float = Field(gt=0)


def order(
    customer: str,
    items: list[Item],
    colour: Colour = Colour.RED,
    day: datetime.date | None = None,
    speed: Literal["slow", "fast"] = "slow",
    copies: Annotated[int, Field(ge=1, le=9, description="How many of each.")] = 1,
) -> None: ...


def parameters(function: Callable[..., Any] = order, **described: str) -> Parameters:
    return parameters_of(function, "order", described)


def values(arguments: dict[str, JsonValue], function: Callable[..., Any] = order) -> dict[str, Any]:
    return parameters(function).values(ToolCall("call-1", arguments, CONTEXT))


def refused(arguments: dict[str, JsonValue], function: Callable[..., Any] = order) -> str:
    with pytest.raises(ToolFailed) as failed:
        values(arguments, function)
    return str(failed.value)


def test_the_schema_is_what_the_function_takes() -> None:
    schema: Any = parameters(customer="Who orders.", copies="Not this.").schema()
    properties = schema["properties"]
    assert list(properties) == ["customer", "items", "colour", "day", "speed", "copies"]
    assert schema["required"] == ["customer", "items"]
    assert schema["additionalProperties"] is False
    assert properties["customer"] == {"type": "string", "description": "Who orders."}
    assert properties["copies"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "default": 1,
        "description": "How many of each.",
    }
    assert properties["speed"]["enum"] == ["slow", "fast"]
    assert properties["day"]["anyOf"] == [{"type": "string", "format": "date"}, {"type": "null"}]
    assert "title" not in schema


def test_arguments_become_the_functions_types() -> None:
    found = values({"customer": "ada", "items": [{"name": "pen", "price": 2}], "colour": "blue", "day": "2026-01-02"})
    assert found == {
        "customer": "ada",
        "items": [Item(name="pen", price=2.0)],
        "colour": Colour.BLUE,
        "day": datetime.date(2026, 1, 2),
        "speed": "slow",
        "copies": 1,
    }


def test_no_number_is_read_from_a_string() -> None:
    told = refused({"customer": "ada", "items": [], "copies": "3"})
    assert told == (
        "The arguments do not fit: 'copies': input should be a valid integer, not \"3\". "
        "Parameters: customer (required), items (required), colour, day, speed, copies."
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"items": []}, "'customer' is missing"),
        ({"customer": "a", "items": [], "color": "red"}, "'color' is not a parameter"),
        ({"customer": "a", "items": [], "colour": "green"}, "'colour': input should be 'red' or 'blue', not \"green\""),
        ({"customer": "a", "items": [{"name": "x", "price": -1}]}, "'items[0].price': input should be greater than 0, not -1"),
        ({"customer": "a", "items": [], "copies": 10}, "less than or equal to 9"),
        ({"customer": None, "items": []}, "'customer': input should be a valid string, not null"),
        ({"customer": "\ud800", "items": []}, "The arguments do not fit"),
    ],
)
def test_errors_say_where_what_and_what_is_right(arguments: dict[str, JsonValue], words: str) -> None:
    told = refused(arguments)
    assert words in told
    assert "pydantic" not in told
    assert "http" not in told


def test_a_flood_of_errors_is_cut() -> None:
    told = refused({"customer": "a", "items": [{"name": "n" * 1_000}] * 100})
    assert "95 more" in told
    assert len(told) < 1_000


def test_context_and_call_come_from_the_turn() -> None:
    def find(query: str, context: AgentContext, turn: AgentContext, who: "ToolCall") -> None: ...

    assert list(parameters(find).schema()["properties"]) == ["query"]  # type: ignore[arg-type]
    found = values({"query": "q"}, find)
    assert (found["context"], found["turn"], found["who"].id) == (CONTEXT, CONTEXT, "call-1")


def test_a_context_by_name_needs_no_type() -> None:
    def find(query: "str", context: "OnlyForTypeCheckers") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    assert values({"query": "q"}, find) == {"query": "q", "context": CONTEXT}


def test_parameters_may_have_any_name_and_no_type() -> None:
    def find(json, schema: str, model_config: int = 3, _hidden=None, f0: str = "") -> None: ...  # type: ignore[no-untyped-def]

    assert list(parameters(find).schema()["properties"]) == ["json", "schema", "model_config", "_hidden", "f0"]  # type: ignore[arg-type]
    expected = {"json": [1], "schema": "s", "model_config": 3, "_hidden": None, "f0": ""}
    assert values({"json": [1], "schema": "s"}, find) == expected


def test_a_default_that_json_cannot_hold_is_left_out_of_the_schema() -> None:
    nothing = object()

    def find(query: Any = nothing) -> None: ...

    assert parameters(find).schema()["properties"] == {"query": {}}
    assert values({}, find) == {"query": nothing}


def test_no_parameters() -> None:
    def now() -> None: ...

    assert parameters(now).schema() == {"type": "object", "properties": {}, "additionalProperties": False}
    assert "It takes no arguments." in refused({"zone": "UTC"}, now)


def everything(*words: str) -> None: ...
def anything(**named: str) -> None: ...
def positional(word: str, /) -> None: ...
def handler(then: Callable[[], None]) -> None: ...
def thing(it: AgentContext | ConfigError) -> None: ...
def unknown(it: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821


class Clerk:
    def find(self, word: str) -> None: ...


@pytest.mark.parametrize("function", [everything, anything, positional, handler, thing, unknown, Clerk.find])
def test_what_a_model_cannot_fill_is_refused_at_once(function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="Tool 'order'"):
        parameters(function)


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from(["customer", "items", "colour", "day", "copies", "x"]), _JSON))
def test_any_arguments_fit_or_are_refused_in_words(arguments: dict[str, JsonValue]) -> None:
    try:
        values(arguments)
    except ToolFailed as failed:
        assert all((failed.problem, failed.fix))  # noqa: PT017
