"""One turn of an agent of another library: its words while they come, then the whole, said once, and its questions."""

import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.agents.adapters.handoff import Target
from turnwise.agents.history import HistoryReader
from turnwise.facts.content import ArtifactPart, BlobPart, Content, DataPart, Part, TextPart, text_content
from turnwise.facts.errors import TurnwiseError
from turnwise.facts.events import USER, End, Event
from turnwise.facts.usage import Usage
from turnwise.ports.context import AgentContext, Show
from turnwise.transcript.compile import compile_transcript
from turnwise.transcript.fences import PREAMBLE, attributed, escape_fences
from turnwise.transcript.sizes import as_text
from turnwise.transcript.view import Budget


class TurnAnswer(NamedTuple):
    """What a run came to: an answer, or a question to the user.

    usage: what its models took; None when that is not known. kept: what the run needs to go on once the question is answered.
    target: who answers next, if the agent handed over.
    """

    parts: Sequence[Part] = ()
    usage: Usage | None = None
    question: str | None = None
    kept: JsonValue = None
    target: Target | None = None


class ResumedRun(NamedTuple):
    """A run that goes on: what it kept, and the reply to its question."""

    kept: Any
    reply: Content


class PieceWriter:
    """Shows the pieces of texts while they come. A library may say several things before its answer, each under a `key` of
    its own; only that which turns out to be the answer keeps the id under which it was shown.
    """

    def __init__(self, context: AgentContext, show: Show) -> None:
        self._context, self._show = context, show
        self._shown: dict[str, tuple[Event, str]] = {}

    async def piece(self, text: str, key: str = "") -> None:
        """Shows the next piece of that text."""
        if not text or not self._context.config.streaming:
            return
        event, before = self._shown.get(key) or (self._context.event(), "")
        self._shown[key] = event, before + text
        await self._show(event.model_copy(update={"content": text_content(text), "partial": True}))

    async def whole(self, parts: Sequence[Part], usage: Usage | None, *, ends: bool = True) -> Event:
        """The event of the answer. Its text is what was shown under its id, neither more nor less."""
        content = Content(parts=tuple(parts))
        event = await self._event_of(content.text)
        actions = event.actions.model_copy(update={"usage": usage, "end": End() if ends else None})
        return event.model_copy(update={"content": content, "actions": actions})

    async def _event_of(self, text: str) -> Event:
        begun = [(key, shown) for key, (_, shown) in self._shown.items() if shown and text.startswith(shown)]
        if not begun:
            return self._context.event()
        key, shown = max(begun, key=lambda each: len(each[1]))
        await self.piece(text[len(shown) :], key)
        return self._shown[key][0]


Work = Callable[[PieceWriter, ResumedRun | None], Awaitable[TurnAnswer]]
Explain = Callable[[Exception], TurnwiseError]


async def take_turn(context: AgentContext, work: Work, explain: Explain) -> None:
    """Runs `work` and says what it came to; when it asks, waits, and runs it again with the reply.

    Each run is on record with what it said, so that a turn that is taken up again does not run it again. What it raises
    becomes what `explain` makes of it; errors of ours stay as they are.
    """
    place = f"waits:{context.invocation_id}:{context.event().branch}"
    resumed: ResumedRun | None = None
    for number in count(1):
        await context.once(f"answer#{number}", _making(context, work, explain, place, resumed))
        waits = context.state.get(place)
        if waits is None:
            return
        if (target := waits.get("target")) is not None:
            del context.state[place]
            await context.transfer(target["agent"], message=target["message"])
            return
        reply = await context.ask(waits["question"])
        resumed = ResumedRun(waits["kept"], reply)


def _making(
    context: AgentContext, work: Work, explain: Explain, place: str, resumed: ResumedRun | None
) -> Callable[[Show], Awaitable[Event]]:
    async def make(show: Show) -> Event:
        voice = PieceWriter(context, show)
        began = time.perf_counter()
        try:
            said = await work(voice, resumed)
        except TurnwiseError:
            raise
        except Exception as error:
            raise explain(error) from error
        usage = said.usage and said.usage.model_copy(update={"ms": (time.perf_counter() - began) * 1000})
        if said.question is not None:
            context.state[place] = {"question": said.question, "kept": said.kept}
            return context.event(usage=usage)
        if said.target is not None:
            context.state[place] = {"target": said.target.kept()}
            return await voice.whole(said.parts, usage, ends=False)
        if resumed is not None:
            del context.state[place]
        return await voice.whole(said.parts, usage)

    return make


async def resolved(value: Any, context: AgentContext) -> Any:
    """The value, or what it gives when it is a function of the context, sync or async."""
    made = value(context) if callable(value) else value
    return await made if inspect.isawaitable(made) else made


def text_parts(text: str) -> tuple[Part, ...]:
    """The text as parts: none when it is empty."""
    return (TextPart(text=text),) if text else ()


HISTORY = Budget(tokens=24_000, events=200)
"""How much of the conversation is handed in."""

_MARK = "<said "


class ReadConversation(NamedTuple):
    """messages: of user and agent in turn, the first and the last the user's. until: the sequence number of the newest event
    that was read."""

    messages: tuple[Content, ...]
    until: int


async def read_conversation(context: AgentContext, budget: Budget) -> ReadConversation:
    """The conversation up to now as this agent sees it; what others said is marked, and the marks are explained."""
    events, until, reader = await _read(context, budget)
    return ReadConversation(
        _explained(compile_transcript(events, reader.view, context.message, budget).messages, context), until
    )


async def new_message(context: AgentContext, budget: Budget, since: int) -> ReadConversation:
    """For an agent that keeps the conversation itself: one message of the user, with what others said after the event
    numbered `since`."""
    events, until, reader = await _read(context, budget)
    unheard = [event for event in events if (event.sequence or 0) > since and event.author != context.card.name]
    messages = compile_transcript(unheard, reader.view, context.message, budget).messages
    parts = [part for message in messages if message.role == "user" for part in message.parts]
    return ReadConversation(
        _explained((Content(role="user", parts=tuple(_attributed(parts, context.message))),), context), until
    )


def usable_parts(content: Content) -> list[str | BlobPart]:
    """What of a content another library can take: texts, and files. Tool calls of ours are nothing to it."""
    return [piece for piece in map(_piece, content.parts) if piece]


def joined(found: Iterable[str | BlobPart]) -> str:
    """The pieces as one text; a file is named."""
    return "\n".join(each if isinstance(each, str) else f"[file: {each.name or each.mime_type}]" for each in found)


def _attributed(parts: Sequence[Part], message: Content) -> list[Part]:
    """The parts, with what the user said before the message marked as said before."""
    own = {escape_fences(part.text) for part in message.parts if isinstance(part, TextPart)}
    plain = [place for place, part in enumerate(parts) if isinstance(part, TextPart) and not part.text.startswith(_MARK)]
    earlier = [place for place in plain[:-1] if getattr(parts[place], "text", "") not in own]
    return [
        TextPart(text=attributed(USER, part.text)) if place in earlier and isinstance(part, TextPart) else part
        for place, part in enumerate(parts)
    ]


async def _read(context: AgentContext, budget: Budget) -> tuple[Sequence[Event], int, HistoryReader]:
    reader = HistoryReader(context, budget)
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
