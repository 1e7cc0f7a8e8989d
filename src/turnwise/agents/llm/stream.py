"""A model's answer as events: the pieces while it comes, then the whole."""

import hashlib
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from turnwise.facts.content import Content, Part, TextPart, ThinkingPart, ToolCallPart
from turnwise.facts.events import Event
from turnwise.ports.model import LENGTH, ModelPiece, ModelReply
from turnwise.transcript.sizes import as_text

TOKENS, PARTS = "tokens", "parts"
"""What an answer ran into that is not whole: the model's limit, or ours (`Actions.cut_off`)."""

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


class CallMarks(NamedTuple):
    """How calls of tools are marked, by the tools' names: as nobody else's to see, and as the caller's to make."""

    private: Collection[str] = ()
    offered: Collection[str] = ()

    def on(self, call: ToolCallPart) -> ToolCallPart:
        """The call with its marks, whatever it had."""
        return call.model_copy(update={"private": call.tool in self.private, "offered": call.tool in self.offered})


def partial_event(event: Event, piece: ModelPiece, marks: CallMarks) -> Event:
    """The piece as a partial event of that event."""
    part: Part
    if piece.kind == "text":
        part = TextPart(text=piece.text)
    elif piece.kind == "thinking":
        part = ThinkingPart(text=piece.text)
    else:
        id_ = call_id(event.id, piece.call)
        part = marks.on(ToolCallPart(call_id=id_, tool=piece.tool, raw=piece.text))
    return event.model_copy(update={"content": Content(parts=(part,)), "partial": True})


def answer_event(event: Event, reply: ModelReply, marks: CallMarks, *, most: int) -> Event:
    """The event with what the model answered, in at most so many parts, its calls under ids of ours.

    What is not whole is marked as cut off. A call that lost arguments, or stands for others that are left out, has none: what
    the model wrote of it is its `raw`, so that it is never made.
    """
    left, cut_off = _left(reply, most)
    parts: list[Part] = []
    place = 0
    for part in left:
        if isinstance(part, ToolCallPart):
            parts.append(marks.on(part.model_copy(update={"call_id": call_id(event.id, place)})))
            place += 1
        else:
            parts.append(part)
    actions = event.actions.model_copy(update={"cut_off": cut_off}) if cut_off else event.actions
    return event.model_copy(update={"content": Content(parts=tuple(parts)), "actions": actions})


def _left(reply: ModelReply, most: int) -> tuple[Sequence[Part], str | None]:
    """The parts that are kept, and what the answer ran into, if it did."""
    parts = list(reply.content.parts)
    kept, calls = parts[:most], [part for part in parts[most:] if isinstance(part, ToolCallPart)]
    if calls:
        last = kept[-1]
        kept[-1] = _unmade(last if isinstance(last, ToolCallPart) else calls[0])
    if len(parts) > most:
        return kept, PARTS
    if reply.finish != LENGTH:
        return kept, None
    if kept and isinstance(kept[-1], ToolCallPart):
        kept[-1] = _unmade(kept[-1])
    return kept, TOKENS


def _unmade(call: ToolCallPart) -> ToolCallPart:
    written = as_text(call.arguments) if call.raw is None else call.raw
    return call.model_copy(update={"arguments": {}, "raw": written})
