"""Reads a model's answer and ends the call when the reader stops early."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from turnwise.ports.model import Model, ModelPiece, ModelReply, ModelRequest

Answer = AsyncIterator[ModelPiece | ModelReply]


@asynccontextmanager
async def open_answer(model: Model, request: ModelRequest, *, stream: bool) -> AsyncIterator[Answer]:
    """Opens a model's answer for the duration of the block. On exit the call has ended, however much of it was read."""
    answer = model.answer(request, stream=stream)
    try:
        yield answer
    finally:
        close = getattr(answer, "aclose", None)  # only generators have one; other iterators hold no open call
        if close is not None:
            await close()
