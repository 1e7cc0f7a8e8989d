"""Leaving an answer ends the call."""

from collections.abc import AsyncIterator

from turnwise.facts.content import text_content
from turnwise.models.by_name import open_answer
from turnwise.ports.model import ModelPiece, ModelReply, ModelRequest

REQUEST = ModelRequest(messages=(text_content("Hello", "user"),))


class Plain:
    """An answer that is an iterator and no generator: there is nothing to close."""

    name = "plain:model"

    def answer(self, request: ModelRequest, *, stream: bool) -> AsyncIterator[ModelPiece | ModelReply]:
        return self

    def __aiter__(self) -> "Plain":
        return self

    async def __anext__(self) -> ModelPiece:
        return ModelPiece("text", "on and ")


async def test_any_iterator_is_an_answer() -> None:
    async with open_answer(Plain(), REQUEST, stream=True) as answer:
        assert await anext(answer) == ModelPiece("text", "on and ")
