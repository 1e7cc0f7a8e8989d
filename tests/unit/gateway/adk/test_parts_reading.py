"""What requests of ADK's clients say."""

from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest

from turnwise.facts.content import BlobPart, Content, TextPart, ToolResultPart
from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.adk.events import decode_bytes, message_of, past_exchanges
from turnwise.gateway.adk.schema import Blob, MessageContent, PastEvent, RunBody

DATA = b"\xfb\xff\xfe\x00"


def message(*parts: dict[str, Any]) -> Content:
    return message_of(MessageContent.model_validate({"parts": parts}))


def test_both_spellings() -> None:
    camel = {"userId": "u", "sessionId": "s", "newMessage": {"parts": [{"inlineData": {"data": "", "mimeType": "a/b"}}]}}
    snake = {"user_id": "u", "session_id": "s", "new_message": {"parts": [{"inline_data": {"data": "", "mime_type": "a/b"}}]}}
    assert RunBody.model_validate(camel) == RunBody.model_validate(snake)
    assert RunBody.model_validate({**camel, "unknown": 1}) == RunBody.model_validate(camel)


@pytest.mark.parametrize(
    "written", [b64encode(DATA), urlsafe_b64encode(DATA), b64encode(DATA).rstrip(b"="), urlsafe_b64encode(DATA).rstrip(b"=")]
)
def test_base64_in_both_alphabets(written: bytes) -> None:
    assert decode_bytes(Blob(data=written.decode()), ()) == DATA


@pytest.mark.parametrize("written", ["a", "ü", "a b c", "=", "aGk=aGk=", "\ud800"])
def test_what_is_no_base64(written: str) -> None:
    with pytest.raises(RequestInvalid) as refused:
        decode_bytes(Blob(data=written), ("body",))
    assert refused.value.where == ("body", "data")


def test_the_parts_of_a_message() -> None:
    said = message(
        {"text": "hi"},
        {"text": ""},
        {"inlineData": {"data": "aGk="}},
        {"functionResponse": {"id": "c", "name": "f", "response": {"a": 1}}},
        {"functionResponse": {"id": "d", "response": None}},
    )
    assert said.role == "user"
    assert said.parts == (
        TextPart(text="hi"),
        TextPart(text=""),
        BlobPart(data=b"hi", mime_type="application/octet-stream"),
        ToolResultPart(call_id="c", tool="f", result={"a": 1}),
        ToolResultPart(call_id="d", result=None),
    )
    assert message_of(MessageContent()).parts == ()


@pytest.mark.parametrize(
    ("response", "approved"),
    [
        ({"confirmed": True}, True),
        ({"confirmed": True, "payload": {}}, True),
        ({"response": '{"confirmed": true}'}, True),
        ({"response": '{"confirmed": "yes"}'}, False),
        ({"response": "[true]"}, False),
        ({"response": "{"}, False),
        ({"response": "\ud800"}, False),
        ({"response": '{"confirmed": true}', "more": 1}, False),
        ({"confirmed": 1}, False),
        (None, False),
    ],
)
def test_only_a_plain_yes_is_one(response: Any, approved: bool) -> None:
    said = message({"functionResponse": {"id": "c-ok", "name": "adk_request_confirmation", "response": response}})
    assert said.parts == (ToolResultPart(call_id="c-ok", tool="confirm", result={"approved": approved}),)


def past(*events: dict[str, Any]) -> Any:
    return past_exchanges([PastEvent.model_validate(event) for event in events])


def said(author: str, *texts: str, **more: Any) -> dict[str, Any]:
    return {"author": author, "content": {"parts": [{"text": text} for text in texts]}, **more}


def test_what_was_said_elsewhere_by_exchange() -> None:
    found = past(
        said("a", "Welcome."),
        said("user", "hi", "there"),
        said("a", "H", partial=True),
        said("a", "Hello."),
        said("b", "How are you?", actions={"stateDelta": {}, "escalate": None}),
        {"author": "a"},
        said("user", "well"),
    )
    texts = [(each.message and each.message.text, [content.text for content in each.said]) for each in found]
    assert texts == [(None, ["Welcome."]), ("hi\nthere", ["Hello.", "How are you?"]), ("well", [])]
    assert past() == []


@pytest.mark.parametrize(
    ("event", "where"),
    [
        (said("a", "x", actions={"state_delta": {"a": 1}}), ("actions",)),
        (said("a", "x", longRunningToolIds=["c"]), ("actions",)),
        ({"author": "a", "content": {"parts": [{"functionCall": {"name": "f"}}]}}, ("content", "parts", 0)),
        ({"author": "a", "content": {"parts": [{"fileData": {"fileUri": "gs://x"}}]}}, ("content", "parts", 0)),
    ],
)
def test_what_cannot_be_brought_in(event: dict[str, Any], where: tuple[str | int, ...]) -> None:
    with pytest.raises(RequestInvalid) as refused:
        past(said("user", "hi"), event)
    assert refused.value.where == ("body", "events", 1, *where)
