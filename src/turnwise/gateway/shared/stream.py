"""What a reader of an invocation sees, independent of any protocol: the answer in a log, and the stream of a running one. Pure.

Each protocol converts the stream to its wire format.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from pydantic import BaseModel
from pydantic_core import to_json

from turnwise.facts.content import DataPart, PartialText, ThinkingPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import LIMIT, USER, ErrorInfo, Event
from turnwise.facts.fact import replaced
from turnwise.facts.selections import Selection
from turnwise.facts.waits import Wait, calls_in, is_approval, wait_opened_by
from turnwise.gateway.redaction import Redactor


def is_shown_to_user(event: Event) -> bool:
    """Returns whether the event's text is part of the answer.

    Texts inside a flow's tasks or a private call are not: the flow or the calling agent uses them for its own answer.
    """
    return event.author != USER and not event.is_private and not event.scope


def shown_text(event: Event) -> str:
    """Returns the text that the event shows to the user; "" if none.

    Questions are always shown. Content that is only data is shown as JSON.
    """
    if event.author == USER or event.content is None or not (is_shown_to_user(event) or event.actions.awaits):
        return ""
    if text := event.text:
        return text
    data = [part.data for part in event.content.parts if isinstance(part, DataPart) and not part.private]
    return "\n".join(to_json(each).decode() for each in data)


def joined_text(events: Iterable[Event]) -> str:
    """Returns the texts of the events that the user sees, joined by newlines."""
    return "\n".join(filter(None, map(shown_text, events)))


COMPLETE_ENDS = frozenset({"completed", "clarify", "loop", "limit:transfers"})
"""End reasons of a complete answer. After a stopped handoff or loop, an agent still gave an answer."""


class DecisionInfo(BaseModel):
    """Turnwise's own addition to OpenAI's schema: where the answer is recorded and why its agent was selected.

    `agent` and `reason` are null if no agent was selected yet. `pending` is true if an agent's tool was still running
    at the end of this answer; its result appears in the session later.
    """

    session_id: str
    message_id: str
    invocation_id: str | None = None
    agent: str | None = None
    reason: str | None = None
    pending: bool = False

    def known(self, invocation_id: str | None, selection: Selection | None, view: Redactor, *, pending: bool) -> "DecisionInfo":
        """Returns a copy with the invocation and the selection, reduced to the fields that the caller may see."""
        shown = view.selection(selection) if selection else None
        agent, reason = (shown.agent, shown.reason) if shown else (self.agent, self.reason)
        return replaced(self, invocation_id=invocation_id, pending=pending, agent=agent, reason=reason)


class TokenUsage(NamedTuple):
    """Token usage as the models report it."""

    asked: int
    """Input tokens."""
    cached: int
    """Input tokens that came from a cache."""
    answered: int
    """Output tokens."""


def token_usage(events: Iterable[Event]) -> TokenUsage:
    """Returns the total token usage of these events."""
    used = [event.actions.usage for event in events if event.actions.usage]
    asked, answered = sum(each.input_tokens for each in used), sum(each.output_tokens for each in used)
    return TokenUsage(asked, sum(each.cached_tokens for each in used), answered)


def failure_text(reason: str, error: ErrorInfo | None, view: Redactor) -> str:
    """Returns the reason for a missing answer as text. `reason` is the end's reason."""
    if reason.startswith(LIMIT):
        return f"The answer ran into the limit {reason.removeprefix(LIMIT)!r}."
    if reason == "cancelled":
        return "The answer was cancelled."
    return view.error(error).message if error else "There is no answer."


MessageKind = Literal["text", "thinking"]


class MessageStarted(NamedTuple):
    """A message begins before its event is stored."""

    event: Event
    """The partial event with the first piece. All events of a message have the same id."""
    kind: MessageKind = "text"


class TextPiece(NamedTuple):
    """The next piece of a message that was started. The pieces of a message, joined, have neither gaps nor repetitions."""

    event: Event
    text: str
    offset: int
    """The number of characters before the piece."""
    kind: MessageKind = "text"


class MessageCompleted(NamedTuple):
    """A message is complete."""

    event: Event
    """The stored event; for thinking, the partial event after it."""
    text: str
    """The whole text; empty if the message has none, and the pieces are withdrawn."""
    sent: str = ""
    """The pieces that were sent; empty if the message was not started."""
    kind: MessageKind = "text"

    @property
    def rest(self) -> str | None:
        """The text after the pieces; None if the text does not begin with them."""
        return self.text[len(self.sent) :] if self.text.startswith(self.sent) else None


class MessageAborted(NamedTuple):
    """A message that was started is not continued: its attempt is over, or another message took its place."""

    event: Event
    kind: MessageKind = "text"


class ToolCalled(NamedTuple):
    """An agent calls a tool. Questions for approval are texts and waits, not calls."""

    event: Event
    call: ToolCallPart


class ToolReturned(NamedTuple):
    """A tool's result arrived."""

    event: Event
    result: ToolResultPart


class Waiting(NamedTuple):
    """The invocation begins to wait. Each wait comes once."""

    wait: Wait


class Retracted(NamedTuple):
    """All earlier events from a sequence number on are retracted."""

    from_sequence: int


StreamItem = MessageStarted | TextPiece | MessageCompleted | MessageAborted | ToolCalled | ToolReturned | Waiting | Retracted


class ReaderStream:
    """Converts the events of an invocation, stored and partial, to items.

    Args:
        serial: Whether at most one message is started at a time. Then messages of parallel agents are not started.
        thinking: Whether thinking is a message, too.
    """

    def __init__(self, *, serial: bool = False, thinking: bool = False) -> None:
        self._serial, self._thinking = serial, thinking
        self._open: dict[tuple[str, MessageKind], tuple[Event, PartialText]] = {}
        self._calls: dict[str, ToolCallPart] = {}
        self._waits: set[str] = set()
        self._thought: set[str] = set()

    @property
    def open(self) -> set[str]:
        """The ids of messages that were started and are not complete."""
        return {id_ for (id_, kind), (_, partial) in self._open.items() if kind == "text" and partial.length}

    def know(self, calls: Iterable[ToolCallPart]) -> None:
        """Adds earlier calls; the invocation may await their results."""
        self._calls |= {call.call_id: call for call in calls}

    def feed(self, event: Event) -> Iterator[StreamItem]:
        """Yields the items of the next event."""
        if event.partial:
            yield from self._pieces(event)
            return
        if event.actions.rewind is not None:
            yield from self.abort()
            yield Retracted(event.actions.rewind.from_sequence)
        if event.author != USER:
            yield from self._stored(event)
        if self._serial and event.actions.transfer_to is not None:  # the next agent's messages may start
            yield from self.abort()

    def abort(self) -> Iterator[MessageAborted]:
        """Aborts all started messages, thinking first."""
        aborted, self._open = self._open, {}
        for (_, kind), (event, partial) in sorted(aborted.items(), key=lambda each: each[0][1] == "text"):
            if partial.length:
                yield MessageAborted(event, kind)

    def _pieces(self, event: Event) -> Iterator[StreamItem]:
        """Yields the items of a partial event. If serial, pieces of other branches wait for the complete message."""
        if self._thinking and (thought := _thought(event)):
            self._thought.add(event.id)
            yield from self._piece(event, thought, None, "thinking")
        if not event.text or not is_shown_to_user(event):
            return
        if self._serial and event.id not in self.open:
            started = [open_ for open_, partial in self._open.values() if partial.length]
            if "~" in event.branch or any(open_.branch != event.branch for open_ in started):
                return
            if started:
                yield from self.abort()
        # The text follows the thinking, which is thereby complete.
        if (event.id, "thinking") in self._open:
            thought = self._open.pop((event.id, "thinking"))[1].text
            yield MessageCompleted(event, thought, thought, "thinking")
        yield from self._piece(event, event.text, event.offset, "text")

    def _piece(self, event: Event, text: str, offset: int | None, kind: MessageKind) -> Iterator[StreamItem]:
        """Adds a piece to its open message and yields its new text, with the start of the message before the first."""
        _, partial = self._open.setdefault((event.id, kind), (event, PartialText()))
        begin = partial.length
        new = partial.add(text, offset)
        if new and not begin:
            yield MessageStarted(event, kind)
        if new:
            yield TextPiece(event, new, begin, kind)

    def _stored(self, event: Event) -> Iterator[StreamItem]:
        """Yields the items of a stored event: completed messages, tool calls and results, and a wait."""
        if self._thinking:
            yield from self._complete(event, _thought(event), "thinking", is_new=event.id not in self._thought)
            self._thought.add(event.id)
        text = shown_text(event)
        yield from self._complete(event, text, "text", is_new=bool(text))
        content = event.content
        yield from (ToolCalled(event, call) for call in calls_in([event]) if not is_approval(call))
        yield from (ToolReturned(event, result) for result in (content.tool_results if content else ()))
        self.know(calls_in([event]))
        if (wait := wait_opened_by(event, self._calls)) is not None and wait.id not in self._waits:
            self._waits.add(wait.id)
            yield Waiting(wait)

    def _complete(self, event: Event, text: str, kind: MessageKind, *, is_new: bool) -> Iterator[MessageCompleted]:
        _, partial = self._open.pop((event.id, kind), (event, PartialText()))
        if partial.length or (text and is_new):
            yield MessageCompleted(event, text, partial.text, kind)


def _thought(event: Event) -> str:
    parts = event.content.parts if event.content else ()
    return "\n".join(part.text for part in parts if isinstance(part, ThinkingPart) and part.text)
