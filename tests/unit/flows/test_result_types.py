"""Results: their kinds as models see them, what is taken, and what is sent back (behaviour D6)."""

import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, NewType

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, JsonValue

from turnwise.facts.errors import FlowDefinitionError, ToolFailed
from turnwise.flows.result_types import ResultType


class City(BaseModel):
    name: str
    people: int = Field(ge=0)


class Place(BaseModel):
    """Refers to itself, and has a name that Python has not."""

    kind: str = Field(alias="type")
    within: "Place | None" = None


@dataclass
class Point:
    x: float
    y: float


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Unknown:
    """Nothing that pydantic could read."""


def kind(given: Any) -> ResultType:
    return ResultType(given, "report")


def result_schema(result: ResultType) -> Any:
    assert result.parameters["required"] == ["result"]
    assert result.parameters["additionalProperties"] is False
    properties: Any = result.parameters["properties"]
    assert list(properties) == ["result"]
    return properties["result"]


def test_a_text_is_the_default_kind() -> None:
    text = kind(str)
    assert text.schema is None
    assert text.labels == ()
    assert result_schema(text) == {"type": "string"}
    assert text.checked("Paris") == "Paris"
    assert text.checked("") == ""
    with pytest.raises(ToolFailed, match="it has to be of type string, not 7"):
        text.checked(7)


def test_a_type_is_checked_and_comes_back_as_json() -> None:
    city = kind(City)
    assert city.schema == City.model_json_schema()
    assert result_schema(city)["required"] == ["name", "people"]
    assert city.checked({"name": "Paris", "people": 2}) == {"name": "Paris", "people": 2}
    assert city.checked(City(name="Paris", people=2)) == {"name": "Paris", "people": 2}


def test_a_misfit_says_where_and_what() -> None:
    with pytest.raises(ToolFailed, match=r"it\.name is missing; it\.people has to be 0 or more\.") as caught:
        kind(City).checked({"people": -1, "secret": "hunter2"})
    assert "hunter2" not in str(caught.value)
    assert caught.value.fix


def test_of_many_misfits_some_are_told() -> None:
    with pytest.raises(ToolFailed, match=r"\(20 more\)"):
        kind(list[int]).checked(["x"] * 30)


def test_a_type_that_refers_to_itself_keeps_its_definitions_where_references_find_them() -> None:
    place = kind(Place)
    assert result_schema(place) == {"$ref": "#/$defs/Place"}
    assert "Place" in place.parameters["$defs"]  # type: ignore[operator]
    value = {"type": "town", "within": {"type": "land", "within": None}}
    assert place.checked(value) == value


@pytest.mark.parametrize(
    ("given", "value", "result"),
    [
        (int, 7, 7),
        (bool, True, True),
        (list[str], ["a"], ["a"]),
        (Point, {"x": 1, "y": 2}, {"x": 1.0, "y": 2.0}),
        (Point, Point(1, 2), {"x": 1.0, "y": 2.0}),
        (datetime.date, "2024-02-29", "2024-02-29"),
        (Colour, "red", "red"),
        (Literal["yes", "no"], "no", "no"),
        (None, None, None),
        (Any, {"a": [1]}, {"a": [1]}),
    ],
)
def test_types_of_all_kinds(given: Any, value: Any, result: Any) -> None:
    assert kind(given).checked(value) == result


def test_a_json_schema_is_kept_apart_and_checked() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/n"}},
        "required": ["n"],
        "$defs": {"n": {"type": "integer"}},
    }
    given = json.loads(json.dumps(schema))
    result = kind(given)
    given["required"].append("m")
    assert result.schema == schema
    assert result.parameters["$defs"] == {"n": {"type": "integer"}}
    assert "$defs" not in result_schema(result)
    assert result.checked({"n": 1}) == {"n": 1}
    with pytest.raises(ToolFailed, match=r"it\.n is missing"):
        result.checked({})


def test_labels_are_chosen_by_index() -> None:
    mood = kind(["good", "bad", "1"])
    assert mood.labels == ("good", "bad", "1")
    assert mood.schema == {"type": "string", "enum": ["good", "bad", "1"]}
    assert result_schema(mood) == {
        "type": "integer",
        "minimum": 0,
        "maximum": 2,
        "description": "One of: 0 = good, 1 = bad, 2 = 1",
    }
    assert [mood.checked(value) for value in (0, 1, 2, 1.0, "bad", "1")] == ["good", "bad", "1", "bad", "bad", "1"]


@pytest.mark.parametrize("value", [-1, 3, True, 0.5, "Good", "", None, ["good"], 10**30, 1e300])
def test_what_is_no_label_is_sent_back_with_all_labels(value: Any) -> None:
    with pytest.raises(ToolFailed, match="One of: 0 = good, 1 = bad, 2 = ugly"):
        kind(("good", "bad", "ugly")).checked(value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "labels have to be texts"),
        (["good", 1], "labels have to be texts"),
        (["good", " "], "labels have to be texts"),
        (["good", "bad", "good"], "'good' is there twice"),
        ({"type": "text"}, '"text" is no type'),
        ({"default": float("nan")}, "it is no JSON"),
        ({"default": object()}, "it is no JSON"),
        ("int", "its result is a str, which is no type"),
        (object(), "its result is an object, which is no type"),
        (lambda: 1, "its result is a function, which is no type"),
        ({"a", "b"}, "its result is a set, which is no type"),
        (list["Unheard"], "has no JSON schema: a name in it is not defined"),  # type: ignore[name-defined]  # noqa: F821
        (7, "its result is an int, which is no type"),
        (Unknown, "the result type Unknown has no JSON schema: pydantic cannot read such values"),
        (NewType("Newer", Unknown), "the result type Newer has no JSON schema"),
        (list[Unknown], r"the result type list\[.*Unknown\] has no JSON schema"),
        (Callable[[int], int], "has no JSON schema: pydantic cannot read such values"),
    ],
)
def test_kinds_that_cannot_be(given: Any, words: str) -> None:
    """In words of ours: what pydantic advises to whoever writes a model is nothing to whoever writes a task."""
    with pytest.raises(FlowDefinitionError, match=words) as caught:
        kind(given)
    assert "'report'" in caught.value.problem
    assert "arbitrary_types" not in str(caught.value)
    assert caught.value.fix


def test_a_schema_that_holds_itself_is_refused() -> None:
    schema: dict[str, Any] = {}
    schema["not"] = schema
    with pytest.raises(FlowDefinitionError, match="it is no JSON"):
        kind(schema)


@pytest.mark.parametrize("value", [b"x", float("inf"), object(), [float("nan")]])
@pytest.mark.parametrize("given", [str, Any, int, ["a", "b"], {"type": "object"}])
def test_what_is_no_json_is_sent_back(given: Any, value: Any) -> None:
    with pytest.raises(ToolFailed):
        kind(given).checked(value)


@pytest.mark.parametrize(
    ("given", "text", "result"),
    [
        (str, " Paris\n", " Paris\n"),
        (str, "", ""),
        (City, '{"name": "Paris", "people": 2}', {"name": "Paris", "people": 2}),
        (City, '```json\n{"name": "Paris", "people": 2}\n```\n', {"name": "Paris", "people": 2}),
        (City, 'Here it is:\n```json\n{"name": "Paris", "people": 2}\n```\nDone.', {"name": "Paris", "people": 2}),
        (int, " 7 ", 7),
        (datetime.date, "2024-02-29", "2024-02-29"),
        (Annotated[str, Field(max_length=4)], "2024", "2024"),
        (Annotated[str, Field(max_length=4)], "true", "true"),
        (["good", "bad"], "bad\n", "bad"),
        (["good", "bad"], "1", "bad"),
        (["0", "1", "2"], '"2"', "2"),
        ({"type": "array"}, "[1]", [1]),
    ],
)
def test_a_last_word_as_the_result(given: Any, text: str, result: Any) -> None:
    assert kind(given).of_answer(text) == result


def test_data_counts_more_than_words() -> None:
    assert kind(City).of_answer("Here it is.", {"name": "Paris", "people": 2}) == {"name": "Paris", "people": 2}
    assert kind(str).of_answer("Here it is.", {"name": "Paris"}) == "Here it is."
    assert kind(str).of_answer("", {"name": "Größe"}) == '{"name": "Größe"}'


@pytest.mark.parametrize("text", ["", "Paris", "[]", "NaN", "[" * 100_000, "1" * 5_000, "```\n```"])
def test_words_that_are_no_such_result(text: str) -> None:
    with pytest.raises(ToolFailed):
        kind(City).of_answer(text)


def test_words_that_are_json_of_another_kind_are_told_of_that_json() -> None:
    with pytest.raises(ToolFailed, match=r"it\.people"):
        kind(City).of_answer('{"name": "Paris", "people": "many"}')


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3),
)


@given(st.sampled_from([str, int, float, City, Place, dict[str, Any], ["a", "b"], {"type": "object"}]), ANYTHING, st.text())
def test_whatever_comes_is_a_result_in_json_or_is_sent_back(given: Any, value: Any, text: str) -> None:
    result = kind(given)
    takes: list[Callable[[], JsonValue]] = [lambda: result.checked(value), lambda: result.of_answer(text)]
    for take in takes:
        try:
            taken = take()
        except ToolFailed:
            continue
        json.dumps(taken, allow_nan=False)
        assert result.checked(taken) == taken
