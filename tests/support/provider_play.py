"""How the tests of providers ask a model."""

from collections.abc import Callable

import pytest
from llm_servers import FakeAnthropic, FakeOpenAI

from turnwise.facts.content import (
    text_content,
)
from turnwise.facts.errors import ModelError
from turnwise.models.provider import ProviderModel
from turnwise.ports.model import ModelPiece, ModelReply, ModelRequest
from turnwise.ports.tool import ToolSpec

KEY = "test-key-0123456789"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
HELLO = ModelRequest(messages=(text_content("Hello", "user"),), instructions="You are kind.")
ADD = ToolSpec(
    name="add",
    description="Adds.",
    parameters={"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
)
TOOLS = HELLO._replace(tools=(ADD,))

Service = FakeOpenAI | FakeAnthropic
Asking = Callable[[Service], ProviderModel]


async def read(model: ProviderModel, request: ModelRequest = HELLO, *, stream: bool = False) -> list[ModelPiece | ModelReply]:
    return [piece async for piece in model.answer(request, stream=stream)]


async def reply(model: ProviderModel, request: ModelRequest = HELLO, *, stream: bool = False) -> ModelReply:
    *pieces, last = await read(model, request, stream=stream)
    assert isinstance(last, ModelReply)
    assert stream or not pieces
    return last


async def failure(model: ProviderModel, request: ModelRequest = HELLO, *, stream: bool = False) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await read(model, request, stream=stream)
    assert KEY not in repr(caught.value) + str(caught.value)
    return caught.value
