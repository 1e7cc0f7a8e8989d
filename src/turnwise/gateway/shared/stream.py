"""The stream that a reader of an invocation sees, independent of any protocol. Each protocol converts it to its wire format.
Pure.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from turnwise.facts.content import PartialText, ThinkingPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import USER, Event
from turnwise.facts.waits import Wait, calls_in, is_approval, wait_opened_by
from turnwise.gateway.shared.utterances import is_shown_to_user, shown_text

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
