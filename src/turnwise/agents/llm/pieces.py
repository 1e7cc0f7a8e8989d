"""A model's answer as events: the pieces while it comes, then the whole."""

import hashlib
import re
from collections.abc import Collection

from turnwise.facts.content import Content, Part, TextPart, ThinkingPart, ToolCallPart
from turnwise.facts.events import Event
from turnwise.ports.model import ModelPiece

ID_CHARACTERS = 28
"""What is left of 40 for the number of the call, and what is derived from its id."""

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


def call_id(event_id: str, place: int) -> str:
    """The id of the call at that place of the answer: no other call has it, in whatever session or app.

    At most 40 characters that every provider takes.
    """
    base = event_id.removeprefix("event-")
    if _FORBIDDEN.search(base) or len(base) > ID_CHARACTERS:
        base = hashlib.sha256(event_id.encode("utf-8", "surrogatepass")).hexdigest()[:ID_CHARACTERS]
    return f"call-{base}-{place}"


def partial(event: Event, piece: ModelPiece, private: Collection[str]) -> Event:
    """The piece as a partial event of that event; `private` are the names of tools whose calls are nobody else's to see."""
    part: Part
    if piece.kind == "text":
        part = TextPart(text=piece.text)
    elif piece.kind == "thinking":
        part = ThinkingPart(text=piece.text)
    else:
        id_ = call_id(event.id, piece.call)
        part = ToolCallPart(call_id=id_, tool=piece.tool, raw=piece.text, private=piece.tool in private)
    return event.model_copy(update={"content": Content(parts=(part,)), "partial": True})


def whole(event: Event, content: Content, private: Collection[str]) -> Event:
    """The event with that content, its calls under ids of ours."""
    parts: list[Part] = []
    place = 0
    for part in content.parts:
        if isinstance(part, ToolCallPart):
            ours = {"call_id": call_id(event.id, place), "private": part.tool in private}
            parts.append(part.model_copy(update=ours))
            place += 1
        else:
            parts.append(part)
    return event.model_copy(update={"content": Content(parts=tuple(parts))})
