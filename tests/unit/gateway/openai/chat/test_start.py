"""What the messages of a request tell."""

from typing import Any

import pytest

from turnwise.facts.content import BlobPart, DataPart, TextPart, ToolCallPart, ToolResultPart
from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.openai.chat.routes import ChatHistory, read_history
from turnwise.gateway.openai.chat.schema import ChatBody
from turnwise.gateway.shared.exchanges import PastTurn


def read(*messages: dict[str, Any]) -> ChatHistory:
    return read_history(ChatBody.model_validate({"model": "m", "messages": list(messages)}).messages)


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def texts(turn: PastTurn) -> tuple[str, str]:
    return turn.sent.text, turn.text


def test_what_follows_the_last_answer_is_new() -> None:
    found = read(user("a"), {"role": "assistant", "content": "1"}, user("b"), {"role": "assistant", "content": "2"}, user("c"))
    assert [texts(turn) for turn in found.past] == [("a", "1"), ("b", "2")]
    assert found.message.parts == (TextPart(text="c"),)
    assert found.message.role == "user"


def test_messages_without_another_between_are_one() -> None:
    found = read(
        {"role": "assistant", "content": "Welcome."},
        user("a"),
        user("b"),
        {"role": "assistant", "content": "1"},
        {"role": "assistant", "content": [{"type": "text", "text": "2"}, {"type": "refusal", "refusal": "no"}]},
        user("c"),
        user("d"),
    )
    assert [texts(turn) for turn in found.past] == [("", "Welcome."), ("a\nb", "1\n2\nno")]
    assert found.message.text == "c\nd"


def test_instructions_of_any_place() -> None:
    found = read({"role": "system", "content": "one"}, user("a"), {"role": "developer", "content": "two"}, user("b"))
    assert found.instructions == DataPart(name="instructions", data="one\n\ntwo")
    assert found.message.text == "a\nb"
    assert read({"role": "system", "content": " "}, user("a")).instructions is None


def test_calls_and_results() -> None:
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "not json"}},
        {"id": "c3", "type": "function", "function": {"name": "h", "arguments": ""}},
    ]
    found = read(
        user("a"),
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "[1, 2]"},
        {"role": "tool", "tool_call_id": "c2", "content": "[broken"},
        {"role": "tool", "tool_call_id": "c3", "content": "12"},
        user("and"),
    )
    assert found.past[0].calls == (
        ToolCallPart(call_id="c1", tool="f", arguments={"a": 1}),
        ToolCallPart(call_id="c2", tool="g", raw="not json"),
        ToolCallPart(call_id="c3", tool="h"),
    )
    assert found.message.parts == (
        ToolResultPart(call_id="c1", result=[1, 2]),
        ToolResultPart(call_id="c2", result="[broken"),
        ToolResultPart(call_id="c3", result="12"),
        TextPart(text="and"),
    )


def test_files() -> None:
    found = read(
        user(
            [
                {"type": "image_url", "image_url": {"url": "data:,plain%20text"}},
                {"type": "file", "file": {"file_data": "eA==", "filename": "a.csv"}},
                {"type": "file", "file": {"file_data": "eA=="}},
                {"type": "input_audio", "input_audio": {"data": "eA==", "format": "mp3"}},
            ]
        )
    )
    assert found.message.parts == (
        BlobPart(data=b"plain text", mime_type="text/plain"),
        BlobPart(data=b"x", mime_type="text/csv", name="a.csv"),
        BlobPart(data=b"x"),
        BlobPart(data=b"x", mime_type="audio/mpeg"),
    )


@pytest.mark.parametrize(
    ("message", "where"),
    [
        (user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}]), "image_url.url"),
        (user([{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]), "image_url.url"),
        (user([{"type": "input_audio", "input_audio": {"data": "eA==", "format": "midi"}}]), "input_audio"),
        (user([{"type": "text"}]), "type"),
        ({"role": "tool", "tool_call_id": "c", "content": [{"type": "image_url", "image_url": {"url": "data:,x"}}]}, "type"),
        ({"role": "assistant", "tool_calls": [{"id": "c", "type": "custom"}]}, "type"),
    ],
)
def test_what_nobody_here_can_read(message: dict[str, Any], where: str) -> None:
    with pytest.raises(RequestInvalid) as refused:
        read(message)
    assert ".".join(map(str, refused.value.where)).endswith(where)
