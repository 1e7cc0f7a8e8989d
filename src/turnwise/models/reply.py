"""Reading a model's answer so that whoever stops early ends the call at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from turnwise.ports.model import Model, ModelPiece, ModelReply, ModelRequest

Answer = AsyncIterator[ModelPiece | ModelReply]


@asynccontextmanager
async def open_answer(model: Model, request: ModelRequest, *, stream: bool) -> AsyncIterator[Answer]:
    """The answer to read inside the block; when the block is left the call has ended, however far it was read."""
    answer = model.answer(request, stream=stream)
    try:
        yield answer
    finally:
        close = getattr(answer, "aclose", None)  # any iterator is an answer; those that hold a call are generators
        if close is not None:
            await close()
