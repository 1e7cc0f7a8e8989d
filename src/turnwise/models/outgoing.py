"""Prepares the conversation for a model provider."""

import hashlib
import re
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


_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,40}")


class WireIds:
    """Maps our call ids to unique ids that every provider accepts, within one request to the provider `system`.

    A provider gets its own id back where possible, since its signature covers the id.
    """

    def __init__(self, system: str) -> None:
        self._system = system
        self._ids: dict[str, str] = {}
        self._used: set[str] = set()

    def of_call(self, part: ToolCallPart) -> str:
        own = part.seal.data.get("call_id") if part.seal and part.seal.provider == self._system else None
        id_ = own if isinstance(own, str) and own not in self._used else _plain(part.call_id)
        while id_ in self._used:
            id_ = _hashed(id_)
        self._used.add(id_)
        self._ids[part.call_id] = id_
        return id_

    def of_result(self, call_id: str) -> str:
        """Returns the id of the latest call with this call id."""
        return self._ids.get(call_id) or _plain(call_id)


def _plain(call_id: str) -> str:
    return call_id if _PLAIN.fullmatch(call_id) else _hashed(call_id)


def _hashed(call_id: str) -> str:
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:24]
