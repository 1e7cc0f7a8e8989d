"""OpenAI's own models: they are told to keep nothing, so what they sealed must go back as it came."""

import json
from collections.abc import Iterator

import pytest
from llm_servers import Answer, FakeResponses

from turnwise.facts.content import Content, TextPart, ThinkingPart, ToolResultPart, text_content
from turnwise.facts.errors import ModelUnavailable
from turnwise.models.provider import ProviderModel
from turnwise.ports.model import ModelPiece, ModelReply, ModelRequest
from turnwise.ports.tool import ToolSpec

ADD = ToolSpec(name="add", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
HELLO = ModelRequest(messages=(text_content("Hello", "user"),), instructions="You are kind.", tools=(ADD,))
MODEL = ProviderModel("openai-responses:gpt-5")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeResponses]:
    with FakeResponses(key="test-key") as service:
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        monkeypatch.setenv("OPENAI_BASE_URL", service.url)
        yield service


async def read(request: ModelRequest, *, stream: bool) -> tuple[list[ModelPiece], ModelReply]:
    *pieces, last = [piece async for piece in MODEL.answer(request, stream=stream)]
    assert isinstance(last, ModelReply)
    return [piece for piece in pieces if isinstance(piece, ModelPiece)], last


@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation_with_calls_and_thinking(service: FakeResponses, stream: bool) -> None:
    service.say(
        Answer(
            "I add.", calls=(("add", {"a": 1}), ("add", '{"a": oops')), thinking="Two sums.", input_tokens=50, cached_tokens=20
        ),
        "Three.",
        "Good bye.",
    )
    pieces, reply = await read(HELLO, stream=stream)
    thought, said, _first, _second = reply.content.parts
    assert isinstance(thought, ThinkingPart)
    assert isinstance(said, TextPart)
    assert (thought.text, said.text) == ("Two sums.", "I add.")
    assert (reply.usage.input_tokens, reply.usage.cached_tokens) == (50, 20)
    assert [(call.arguments, call.raw) for call in reply.content.tool_calls] == [({"a": 1}, None), ({}, '{"a": oops')]
    if stream:
        assert {piece.kind for piece in pieces} == {"text", "thinking", "arguments"}
        assert json.loads("".join(piece.text for piece in pieces if piece.kind == "arguments" and piece.call == 0)) == {"a": 1}
    results = tuple(ToolResultPart(call_id=call.call_id, tool="add", result=3) for call in reply.content.tool_calls)
    messages = (*HELLO.messages, reply.content, Content(role="user", parts=results))
    _, reply = await read(HELLO._replace(messages=messages), stream=stream)
    messages = (*messages, reply.content, text_content("Thank you", "user"))
    assert (await read(HELLO._replace(messages=messages), stream=stream))[1].content.text == "Good bye."
    assert service.refused == []


@pytest.mark.parametrize("cut", ["broken", "ended"])
async def test_a_stream_that_is_cut_is_unavailable(service: FakeResponses, cut: str) -> None:
    service.say(Answer("A long, long story.", cut_after=5, cut="broken" if cut == "broken" else "ended"))
    with pytest.raises(ModelUnavailable):
        await read(HELLO, stream=True)
