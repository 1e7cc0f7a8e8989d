"""Requests as messages of the protocol."""

from typing import Any

import pytest
from a2a.types import GetTaskRequest, ListTasksRequest, SendMessageRequest
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError, InvalidRequestError, JSONParseError
from hypothesis import given, strategies as st

from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.a2a.messages import check_type, json_of, message_of, object_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.sampled_from(["text", "raw", "data"]), inner),
    max_leaves=8,
)
FIELDS = ("messageId", "contextId", "taskId", "role", "parts", "metadata", "extensions", "referenceTaskIds")


def message(**fields: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}], **fields}}


@given(st.sampled_from(FIELDS), JSON)
def test_whatever_is_sent_it_is_a_message_or_the_senders_mistake(field: str, value: Any) -> None:
    try:
        read = message_of(message(**{field: value}), SendMessageRequest)
    except (RequestInvalid, InvalidParamsError):
        return
    assert isinstance(read, SendMessageRequest)


@pytest.mark.parametrize("raw", ["aGk=", "aGk", "_-_-", ""])
def test_base64_with_or_without_what_fills_it_up(raw: str) -> None:
    assert message_of(message(parts=[{"raw": raw}]), SendMessageRequest).message.parts[0].HasField("raw")


@pytest.mark.parametrize("raw", ["a", "aGk=x", "a b", "####", "aGk\n", 5, ["aGk="]])
def test_what_is_no_base64(raw: Any) -> None:
    with pytest.raises(RequestInvalid) as refused:
        message_of(message(parts=[{"text": "t"}, {"raw": raw}]), SendMessageRequest)
    assert refused.value.where == ("message.parts[1].raw",)


def test_a_state_that_there_is_not_is_not_every_state() -> None:
    for good in ({}, {"status": "TASK_STATE_WORKING"}, {"status": 2}, {"status": None}, {"status": "TASK_STATE_UNSPECIFIED"}):
        assert isinstance(message_of(good, ListTasksRequest), ListTasksRequest)
    with pytest.raises(RequestInvalid, match="Unknown task state"):
        message_of({"status": "working"}, ListTasksRequest)


def test_what_has_to_be_there() -> None:
    with pytest.raises(InvalidParamsError):
        message_of({}, GetTaskRequest)
    assert message_of({"id": "t", "historyLength": 3, "unknown": 1}, GetTaskRequest).history_length == 3


@pytest.mark.parametrize("body", [b"{", b"\xff", b'"\\ud800"', b"[" * 999, b"NaN"])
def test_what_is_no_json(body: bytes) -> None:
    with pytest.raises(JSONParseError):
        json_of(body)


def test_bodies_of_the_http_binding() -> None:
    assert (object_of(b""), object_of(b" "), object_of(b'{"a": 1}')) == ({}, {}, {"a": 1})
    with pytest.raises(InvalidRequestError):
        object_of(b"[]")


def test_types_of_bodies() -> None:
    for good in (None, "", "application/json", "Application/A2A+JSON; charset=utf-8"):
        check_type(good)
    for bad in ("text/plain", "json", "application/jsonx", ";"):
        with pytest.raises(ContentTypeNotSupportedError, match="Content-Type: application/json"):
            check_type(bad)
