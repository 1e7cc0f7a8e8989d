"""Turns the reply of a test model into a stream of pieces."""

import json
from collections.abc import Iterator

from turnwise.facts.content import Content, TextPart, ThinkingPart, ToolCallPart
from turnwise.ports.model import ModelPiece, ModelReply

_PIECE = 8


def stream_reply(reply: ModelReply, *, stream: bool) -> Iterator[ModelPiece | ModelReply]:
    """Yields the reply; if streamed, pieces of a few letters come first."""
    if stream:
        yield from pieces(reply.content)
    yield reply


def pieces(content: Content) -> Iterator[ModelPiece]:
    calls = -1
    for part in content.parts:
        match part:
            case TextPart():
                yield from (ModelPiece("text", piece) for piece in _cut(part.text))
            case ThinkingPart():
                yield from (ModelPiece("thinking", piece) for piece in _cut(part.text))
            case ToolCallPart():
                calls += 1
                written = json.dumps(part.arguments) if part.raw is None else part.raw
                yield from (ModelPiece("arguments", piece, calls, part.tool) for piece in _cut(written))


def _cut(text: str) -> Iterator[str]:
    return (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
