"""What pydantic finds wrong, in words of ours."""

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError, field_validator

from turnwise.flows.result_types import validation_problems


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int


class Town(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    people: int = Field(default=0, ge=0)
    streets: list[str] = Field(default=[], max_length=2)

    @field_validator("name")
    @classmethod
    def known(cls, name: str) -> str:
        if name == "Nowhere":
            raise ValueError("Nobody knows it.")
        return name


def told(kind: Any, found: JsonValue, **options: Any) -> str:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(kind).validate_python(found, strict=False)
    return validation_problems(raised.value, **options)


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (str, 3, "it has to be a text"),
        (int, "x", "it has to be a whole number"),
        (int, 1.5, "it has to be a whole number"),
        (float, "x", "it has to be a number"),
        (Decimal, "x", "it has to be a number"),
        (bool, "x", "it has to be true or false"),
        (list[int], 3, "it has to be a list"),
        (set[int], 3, "it has to be a list"),
        (dict[str, int], 3, "it has to be an object"),
        (Town, 3, "it has to be an object"),
        (Point, 3, "it has to be an object"),
        (None, 3, "it has to be null"),
        (Literal["a", "b"], "c", "it has to be 'a' or 'b'"),
        (Colour, "green", "it has to be 'red' or 'blue'"),
        (list[int], [1, "x"], "it[1] has to be a whole number"),
        (dict[str, list[int]], {"a": ["x"]}, "it.a[0] has to be a whole number"),
        (Town, {}, "it.name is missing"),
        (Town, {"name": "A", "size": 3}, "it.size does not belong there"),
        (Town, {"name": "A", "people": -1}, "it.people has to be 0 or more"),
        (Annotated[int, Field(gt=3)], 3, "it has to be more than 3"),
        (Annotated[int, Field(lt=3)], 3, "it has to be less than 3"),
        (Annotated[int, Field(le=3)], 4, "it has to be 3 or less"),
        (Town, {"name": "A", "streets": ["x"] * 3}, "it.streets has to have a length of 2 or less"),
        (Annotated[list[int], Field(min_length=1)], [], "it has to have a length of 1 or more"),
        (Annotated[str, Field(min_length=2)], "x", "it has to have at least 2 characters"),
        (Annotated[str, Field(max_length=2)], "xyz", "it has to have at most 2 characters"),
        (Town, {"name": "Nowhere"}, "it.name: Nobody knows it"),
        (Annotated[str, Field(pattern="^a")], "b", "it should match pattern '^a'"),
    ],
)
def test_each_says_where_and_what(kind: Any, value: JsonValue, says: str) -> None:
    assert told(kind, value) == says


def test_what_is_no_json_is_told() -> None:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(int).validate_json("{")
    assert validation_problems(raised.value).startswith("it is no JSON: ")


def test_several_are_told_up_to_a_limit_and_values_never() -> None:
    assert told(Town, {"people": -1, "secret": "hunter2"}, value="the town") == (
        "the town.name is missing; the town.people has to be 0 or more; the town.secret does not belong there"
    )
    assert told(Town, {"people": -1}, value="") == "name is missing; people has to be 0 or more"
    assert told(list[int], ["x"] * 30, most=1) == "it[0] has to be a whole number (29 more)"


@given(
    st.sampled_from([int, Town, Point, list[Town], dict[str, int], Colour, Decimal]),
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.dictionaries(st.text(max_size=4), v)),
)
def test_whatever_does_not_fit_is_told_without_the_librarys_words(kind: Any, value: JsonValue) -> None:
    try:
        TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        words = validation_problems(error)
        assert words
        assert "Input should" not in words
