"""The conversation as an agent of another library is to read it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from turnwise.agents.reading import LogReader
from turnwise.facts.content import ArtifactPart, BlobPart, Content, DataPart, Part, TextPart
from turnwise.facts.events import USER, Event
from turnwise.ports.context import AgentContext
from turnwise.transcript.compile import compiled
from turnwise.transcript.fences import PREAMBLE, defused, said_by
from turnwise.transcript.sizes import as_text
from turnwise.transcript.view import Budget

HISTORY = Budget(tokens=24_000, events=200)
"""How much of the conversation is handed in."""

_MARK = "<said "


class Heard(NamedTuple):
    """messages: of user and agent in turn, the first and the last the user's. until: the sequence number of the newest event
    that was read."""

    messages: tuple[Content, ...]
    until: int


async def heard(context: AgentContext, budget: Budget) -> Heard:
    """The conversation up to now as this agent sees it; what others said is marked, and the marks are explained."""
    events, until, reader = await _read(context, budget)
    return Heard(_explained(compiled(events, reader.view, context.message, budget).messages, context), until)


async def news(context: AgentContext, budget: Budget, since: int) -> Heard:
    """For an agent that keeps the conversation itself: one message of the user, with what others said after the event
    numbered `since`."""
    events, until, reader = await _read(context, budget)
    unheard = [event for event in events if (event.sequence or 0) > since and event.author != context.card.name]
    messages = compiled(unheard, reader.view, context.message, budget).messages
    parts = [part for message in messages if message.role == "user" for part in message.parts]
    return Heard(_explained((Content(role="user", parts=tuple(_attributed(parts, context.message))),), context), until)


def pieces(content: Content) -> list[str | BlobPart]:
    """What of a content another library can take: texts, and files. Tool calls of ours are nothing to it."""
    return [piece for piece in map(_piece, content.parts) if piece]


def joined(found: Iterable[str | BlobPart]) -> str:
    """The pieces as one text; a file is named."""
    return "\n".join(each if isinstance(each, str) else f"[file: {each.name or each.mime_type}]" for each in found)


def _attributed(parts: Sequence[Part], message: Content) -> list[Part]:
    """The parts, with what the user said before the message marked as said before."""
    own = {defused(part.text) for part in message.parts if isinstance(part, TextPart)}
    plain = [place for place, part in enumerate(parts) if isinstance(part, TextPart) and not part.text.startswith(_MARK)]
    earlier = [place for place in plain[:-1] if getattr(parts[place], "text", "") not in own]
    return [
        TextPart(text=said_by(USER, part.text)) if place in earlier and isinstance(part, TextPart) else part
        for place, part in enumerate(parts)
    ]


async def _read(context: AgentContext, budget: Budget) -> tuple[Sequence[Event], int, LogReader]:
    reader = LogReader(context, budget)
    events = await reader.events()
    return events, max((event.sequence or 0 for event in events), default=0), reader


def _explained(messages: tuple[Content, ...], context: AgentContext) -> tuple[Content, ...]:
    marked = any(
        isinstance(part, TextPart) and _MARK in part.text
        for message in messages
        if message.role == "user"
        for part in message.parts
    )
    if not marked:
        return messages
    first = messages[0]
    preamble = TextPart(text=f'You are "{context.card.name}".\n{PREAMBLE}')
    return (first.model_copy(update={"parts": (preamble, *first.parts)}), *messages[1:])


def _piece(part: Part) -> str | BlobPart:
    match part:
        case TextPart(text=text):
            return text
        case DataPart(data=data):
            return as_text(data)
        case BlobPart():
            return part
        case ArtifactPart():
            return f"[file: {part.title or part.name}]"
    return ""
