"""Turns a model's reply into events: partial events for the chunks, then the complete event."""

import hashlib
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from turnwise.facts.content import Content, Part, TextPart, ThinkingPart, ToolCallPart
from turnwise.facts.events import Event
from turnwise.ports.model import LENGTH, ModelPiece, ModelReply
from turnwise.transcript.view import as_text

TOKENS, PARTS = "tokens", "parts"
"""The limit that cut an answer off (`Actions.cut_off`): the model's token limit, or our limit of parts."""

ID_CHARACTERS = 28
"""The length of the base of a call id. The rest of 40 characters is for the call's number and for derived ids."""

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


def call_id(event_id: str, place: int) -> str:
    """Returns the id of the tool call at that position of the answer; unique across sessions and apps.

    It has at most 40 characters, all of which every provider accepts.
    """
    base = event_id.removeprefix("event-")
    if _FORBIDDEN.search(base) or len(base) > ID_CHARACTERS:
        base = hashlib.sha256(event_id.encode("utf-8", "surrogatepass")).hexdigest()[:ID_CHARACTERS]
    return f"call-{base}-{place}"


class CallMarks(NamedTuple):
    """The names of the tools; their calls get a mark."""

    private: Collection[str] = ()
    """The tools that hide their calls from other agents."""
    offered: Collection[str] = ()
    """Tools that the caller runs."""

    def on(self, call: ToolCallPart) -> ToolCallPart:
        """Returns the call with both marks set by its tool's name."""
        return call.replace(private=call.tool in self.private, offered=call.tool in self.offered)


def partial_event(event: Event, piece: ModelPiece, marks: CallMarks) -> Event:
    """Returns a partial event with that chunk, under the id of `event`."""
    part: Part
    if piece.kind == "text":
        part = TextPart(text=piece.text)
    elif piece.kind == "thinking":
        part = ThinkingPart(text=piece.text)
    else:
        id_ = call_id(event.id, piece.call)
        part = marks.on(ToolCallPart(call_id=id_, tool=piece.tool, raw=piece.text))
    return event.replace(content=Content(parts=(part,)), partial=True)


def answer_event(event: Event, reply: ModelReply, marks: CallMarks, *, most: int) -> Event:
    """Returns the event with the model's answer, in at most `most` parts, with our own call ids.

    An incomplete answer is marked as cut off. A call that lost its arguments, or that represents omitted calls, gets
    empty arguments and the written text as `raw`, so it is never made.
    """
    kept, cut_off = _kept_parts(reply, most)
    parts: list[Part] = []
    number = 0
    for part in kept:
        if isinstance(part, ToolCallPart):
            parts.append(marks.on(part.replace(call_id=call_id(event.id, number))))
            number += 1
        else:
            parts.append(part)
    actions = event.actions.replace(cut_off=cut_off) if cut_off else event.actions
    return event.replace(content=Content(parts=tuple(parts)), actions=actions)


def _kept_parts(reply: ModelReply, most: int) -> tuple[Sequence[Part], str | None]:
    """Returns the parts that stay and the limit that cut the answer off; None if it is complete."""
    parts = list(reply.content.parts)
    kept, calls = parts[:most], [part for part in parts[most:] if isinstance(part, ToolCallPart)]
    if calls:
        last = kept[-1]
        kept[-1] = _without_arguments(last if isinstance(last, ToolCallPart) else calls[0])
    if len(parts) > most:
        return kept, PARTS
    if reply.finish != LENGTH:
        return kept, None
    if kept and isinstance(kept[-1], ToolCallPart):
        kept[-1] = _without_arguments(kept[-1])
    return kept, TOKENS


def _without_arguments(call: ToolCallPart) -> ToolCallPart:
    written = as_text(call.arguments) if call.raw is None else call.raw
    return call.replace(arguments={}, raw=written)
