"""What of a conversation goes out to a provider."""

from collections.abc import Iterator, Sequence

from turnwise.facts.content import (
    ArtifactPart,
    BlobPart,
    Content,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)

_SEALED = (TextPart, ThinkingPart, ToolCallPart)


def outgoing(messages: Sequence[Content], system: str) -> list[Content]:
    """The conversation for the provider `system`, its sides in turn.

    Of seals it gets only its own, and of thinking only what it sealed. Files that an agent made, and references to files, go
    as their names. What says nothing is left out, and then what stands next to each other is one message: results of tools
    first in it.
    """
    turns: list[tuple[Role, list[Part]]] = []
    for content in messages:
        parts = [said for part in content.parts for said in _outgoing_part(part, content.role, system)]
        if parts and turns and turns[-1][0] == content.role:
            turns[-1][1].extend(parts)
        elif parts:
            turns.append((content.role, parts))
    return [Content(role=role, parts=tuple(_results_first(parts))) for role, parts in turns]


def _outgoing_part(part: Part, role: Role, system: str) -> Iterator[Part]:
    if isinstance(part, _SEALED) and part.seal is not None and part.seal.provider != system:
        part = part.model_copy(update={"seal": None})
    match part:
        case TextPart() if part.text:
            yield part
        case ThinkingPart() if part.seal is not None and part.seal.data != {"id": "content"}:
            yield part  # thinking that came as tags in the text ("content") is of no more use
        case ToolCallPart() | ToolResultPart():
            yield part
        case BlobPart() if role == "user":
            yield part
        case BlobPart():
            yield TextPart(text=f"[file: {part.name or part.mime_type}]")
        case ArtifactPart():
            yield TextPart(text=f"[file: {part.title or part.name}]")


def _results_first(parts: Sequence[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: not isinstance(part, ToolResultPart))
