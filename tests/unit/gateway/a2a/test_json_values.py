"""JSON values as the protocol holds them, and back."""

import json
from typing import Any

import pytest
from a2a.types import ListTasksResponse, Part, Task
from google.protobuf.struct_pb2 import Value
from hypothesis import given, strategies as st

from turnwise.gateway.a2a.messages import data_part, json_object, message_json, task_page_json

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_every_value_comes_back(value: Any) -> None:
    part = data_part(value)
    assert message_json(part.data) == value


@pytest.mark.parametrize("value", [2**53, -(2**60), {"a": [2**70]}])
def test_numbers_that_would_not_be_exact_come_as_text(value: Any) -> None:
    part = data_part(value, "n")
    assert (json.loads(part.text), part.media_type, part.filename) == (value, "application/json", "n")


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": float("-inf")}])
def test_numbers_that_are_none_come_as_nothing(value: Any) -> None:
    assert "null" in data_part(value).text


def test_what_is_nested_too_deep_comes_as_text() -> None:
    value: Any = 1
    for _ in range(60):
        value = {"a": value}
    assert json.loads(data_part(value).text) == value


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        message_json(Part(data=Value(number_value=float("inf"))))


def test_whole_numbers_are_whole() -> None:
    assert type(message_json(json_object({"a": 1}))["a"]) is int


def test_every_field_of_a_page_is_there() -> None:
    assert task_page_json(ListTasksResponse()) == {"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0}
    assert task_page_json(ListTasksResponse(tasks=[Task(id="t")]))["tasks"] == [{"id": "t"}]
