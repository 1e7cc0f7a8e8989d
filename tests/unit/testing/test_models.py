"""Models for tests of agents."""

import json

import pytest

from turnwise.facts.content import Content, TextPart, ThinkingPart, ToolCallPart, text_content
from turnwise.facts.errors import ModelRefused, ModelUnavailable
from turnwise.facts.usage import Usage
from turnwise.ports.model import Model, ModelPiece, ModelReply, ModelRequest
from turnwise.testing.models import FunctionModel, ScriptedModel, calls

REQUEST = ModelRequest(messages=(text_content("Hello", "user"),))


async def read(model: Model, *, stream: bool = False) -> list[ModelPiece | ModelReply]:
    return [piece async for piece in model.answer(REQUEST, stream=stream)]


async def reply(model: Model, *, stream: bool = False) -> ModelReply:
    last = (await read(model, stream=stream))[-1]
    assert isinstance(last, ModelReply)
    return last


async def test_replies_come_in_order_and_requests_are_kept() -> None:
    content = Content(role="agent", parts=(ThinkingPart(text="Hm."), TextPart(text="Two.")))
    whole = ModelReply(content, Usage(model="a:b", input_tokens=5), "length")
    model = ScriptedModel("One.", content, whole, lambda request: f"I heard {request.messages[-1].text}.", name="scripted:x")
    replies = [await reply(model) for _ in range(4)]
    assert [answer.content.text for answer in replies] == ["One.", "Two.", "Two.", "I heard Hello."]
    assert replies[0].usage.model == "scripted:x"
    assert replies[2] == whole
    assert (model.requests, model.left) == ([REQUEST] * 4, 0)


async def test_calls_get_their_ids_in_each_answer_anew() -> None:
    """As with some providers: whoever keeps them apart must not rely on the model."""
    model = ScriptedModel(calls("a", {"x": 1}), ["I look.", calls("b"), calls("c", "no json")])
    assert (await reply(model)).content.tool_calls == (ToolCallPart(call_id="call-1", tool="a", arguments={"x": 1}),)
    last = await reply(model)
    assert last.content.parts == (
        TextPart(text="I look."),
        ToolCallPart(call_id="call-1", tool="b"),
        ToolCallPart(call_id="call-2", tool="c", raw="no json"),
    )
    assert last.finish == "tool_calls"


async def test_it_streams_in_small_pieces() -> None:
    parts = (ThinkingPart(text="I think long."), TextPart(text="I say it."))
    model = ScriptedModel([*parts, calls("a", {"name": "value"}), calls("b", {"n": 12345678})])
    *pieces, last = await read(model, stream=True)
    told = [piece for piece in pieces if isinstance(piece, ModelPiece)]
    assert isinstance(last, ModelReply)
    assert len(told) == len(pieces) > 6
    assert "".join(piece.text for piece in told if piece.kind == "thinking") == "I think long."
    assert "".join(piece.text for piece in told if piece.kind == "text") == "I say it."
    written = ["".join(p.text for p in told if p.kind == "arguments" and p.call == call) for call in (0, 1)]
    assert [json.loads(text) for text in written] == [{"name": "value"}, {"n": 12345678}]
    assert [piece.tool for piece in told if piece.kind == "arguments"][:1] == ["a"]


async def test_errors_are_raised_at_once_or_in_the_middle() -> None:
    model = ScriptedModel(ModelUnavailable("Away."), ["A story", ModelUnavailable("Cut.")], lambda _: ValueError("bug"))
    with pytest.raises(ModelUnavailable, match="Away"):
        await read(model)
    pieces: list[ModelPiece | ModelReply] = []

    async def listen() -> None:
        async for piece in model.answer(REQUEST, stream=True):
            pieces.append(piece)

    with pytest.raises(ModelUnavailable, match="Cut"):
        await listen()
    assert pieces == [ModelPiece("text", "A story")]
    with pytest.raises(ValueError, match="bug"):
        await read(model)


async def test_a_script_that_is_over_says_so() -> None:
    model = ScriptedModel("One.")
    await read(model)
    with pytest.raises(ModelRefused, match="it has 1 replies, and this is request 2"):
        await read(model)


async def test_a_function_answers_async_or_not() -> None:
    async def slowly(request: ModelRequest) -> str:
        return f"{len(request.messages)} message"

    assert (await reply(FunctionModel(slowly))).content.text == "1 message"
    assert (await reply(FunctionModel(lambda _: [calls("a")]))).content.tool_calls[0].tool == "a"
    assert (await reply(ScriptedModel(slowly))).content.text == "1 message"
    assert FunctionModel(slowly, name="f:g").name == "f:g"
