"""Bodies of our own API: what is taken, and how mistakes are told."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from turnwise.facts.content import Content, TextPart
from turnwise.wire.messages import AnswerWithResult, AnswerWithText, AnswerWithWord, AnyAnswer, SelectAgent, SendMessage

ANSWERS: TypeAdapter[Any] = TypeAdapter(AnyAnswer)


def mistake(given: Any, kind: Any = SendMessage) -> tuple[tuple[int | str, ...], str]:
    """Where the only mistake is, and what."""
    with pytest.raises(ValidationError) as raised:
        (kind if isinstance(kind, TypeAdapter) else TypeAdapter(kind)).validate_python(given)
    (error,) = raised.value.errors()
    return error["loc"], error["msg"]


def test_a_message_is_a_text_or_content() -> None:
    assert SendMessage.model_validate({"content": "hi"}).content == "hi"
    parts = {"parts": [{"kind": "text", "text": "hi"}]}
    assert SendMessage.model_validate({"content": parts}).content == Content(parts=(TextPart(text="hi"),))


def test_bytes_are_base64() -> None:
    body = SendMessage.model_validate({"content": {"parts": [{"kind": "blob", "data": "aGk=", "mime_type": "text/plain"}]}})
    assert isinstance(body.content, Content)
    assert body.content.parts[0].data == b"hi"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "where", "told"),
    [
        ({"content": {"parts": [{"kind": "text", "text": 3}]}}, ("content",), "parts.0.text: Input should be a valid string"),
        ({"content": 3}, ("content",), "Input should be an object"),
        ({"content": {"parts": [{"kind": "text", "text": "x", "colour": 1}]}}, ("content",), "parts.0.colour: Extra inputs"),
        ({"content": {"parts": [{"kind": "data", "data": float("nan")}]}}, ("content",), "It holds a number that is no JSON"),
        ({"content": {"parts": [{"kind": "text", "text": "\ud800"}]}}, ("content",), "Invalid JSON"),
        ({"content": "x", "context": {"channel": 3}}, ("context",), "channel: Input should be a valid string"),
        ({"content": "x", "context": {"{0}": 3}}, ("context",), "(0): Extra inputs"),
        ({"content": "x", "contxt": {}}, ("contxt",), "Extra inputs"),
        ({"content": "x", "id": ""}, ("id",), "at least 1 character"),
        ({"content": "x", "id": "a\0"}, ("id",), "pattern"),
        ({"content": "x", "deadline_seconds": float("inf")}, ("deadline_seconds",), "finite"),
    ],
)
def test_one_mistake_is_told_at_its_place(given: dict[str, Any], where: tuple[str, ...], told: str) -> None:
    loc, message = mistake(given)
    assert loc == where
    assert told in message


@pytest.mark.parametrize("id_", [".", "..", "a/b", "", "x" * 201, "a\0"])
def test_a_session_that_no_path_could_name_is_refused(id_: str) -> None:
    assert mistake({"content": "x", "session_id": id_}, SelectAgent)[0] == ("session_id",)


def test_the_kind_of_an_answer_is_seen_by_its_field() -> None:
    for body, kind in (
        ({"call_id": "c", "text": "x"}, AnswerWithText),
        ({"call_id": "c", "result": None}, AnswerWithResult),
        ({"call_id": "c", "approved": False, "reason": "no"}, AnswerWithWord),
    ):
        assert type(ANSWERS.validate_python(body)) is kind


def test_an_answer_of_no_kind_or_two_is_one_mistake() -> None:
    assert mistake({"call_id": "c"}, ANSWERS) == ((), "It needs one of the fields 'text', 'result' and 'approved'")
    assert mistake({"call_id": "c", "text": "x", "approved": True}, ANSWERS)[0] == ("text", "approved")
    assert mistake([], ANSWERS)[1].startswith("It needs one")
