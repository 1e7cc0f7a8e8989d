"""Prepares the conversation for a model provider."""

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
    """Returns the conversation as the provider `system` may receive it, in alternating roles.

    Seals (provider-signed data) go only to the provider that made them, and thinking only if this provider sealed it. Files of
    agents and references to files become their names. Empty messages are left out. Adjacent messages of one role are joined,
    with tool results first.
    """
    turns: list[tuple[Role, list[Part]]] = []
    for content in messages:
        parts = [sent for part in content.parts for sent in _outgoing_part(part, content.role, system)]
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
            yield part  # thinking that came as tags in the text ("content") is useless to a later call
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
