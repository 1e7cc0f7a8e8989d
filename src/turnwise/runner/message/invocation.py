"""The handle of a running invocation: read it, wait for it, cancel it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from typing import NamedTuple

from turnwise.facts.content import Content
from turnwise.facts.errors import MessageBlocked, TurnwiseError
from turnwise.facts.events import USER, End, ErrorInfo, Event, Guarded
from turnwise.facts.limits import RunConfig
from turnwise.facts.messages import Message, OfferedTool
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey, visible
from turnwise.runner.guards.guardrail_results import blocked_message
from turnwise.runner.record.events import Origin
from turnwise.runner.record.feed import EventFeed


class Result(NamedTuple):
    """How a message was answered.

    text: what the agents said to the user, joined by line breaks. end: None while the invocation waits for a reply or a
    tool result. selection: who was chosen and why; None when it was cancelled before that. error: the last one, of an
    invocation that ended otherwise than `completed`: what failed on the way to a good end is in the events alone. events: the
    stored ones, without what attempts left whose process died. exception: what the agent raised that failed, with its
    traceback, of an invocation that this process ran; None otherwise.
    """

    text: str
    end: End | None
    selection: Selection | None
    error: ErrorInfo | None
    invocation_id: str
    events: tuple[Event, ...]
    exception: BaseException | None = None

    @property
    def waiting(self) -> bool:
        return self.end is None

    @property
    def cut_off(self) -> bool:
        """Whether the text ends before its author was done, because a model ran into its limit, or its answer into ours."""
        return bool(words := _words(self.events)) and words[-1].actions.cut_off is not None


class Invocation:
    """One message on its way to its answer. The run does not depend on this handle: it goes on when nobody reads."""

    def __init__(self, key: SessionKey, message_id: str) -> None:
        self.session = key
        self.message_id = message_id
        self.id: str | None = None
        """The invocation's id; None while the message is queued."""
        self.feed = EventFeed()
        self.exception: BaseException | None = None
        """What the agent raised that failed the invocation, as long as it runs in this process."""
        self._cancelled = False
        self._stop: Callable[[], object] | None = None

    def events(self, *, after: int = 0) -> AsyncIterator[Event]:
        """Events of this message from the user's own on, live, partial ones too; stored ones only above `after`.

        Ends when the invocation ends or waits. Any number of readers, at any time. Raises what the store raised when an
        event could not be stored.
        """
        return self.feed.read(after)

    async def result(self) -> Result:
        """Waits for the end, or until the invocation waits. Raises what the store raised when it could not go on."""
        await self.feed.closed()
        return result_of(self.feed.stored)._replace(exception=self.exception)

    async def cancel(self) -> None:
        """Stops it; returns when its end is recorded. Nothing happens when it has ended, or waits."""
        self.interrupt()
        with suppress(TurnwiseError):
            await self.feed.closed()

    def interrupt(self) -> None:
        """Asks it to stop, without waiting for it."""
        self._cancelled = True
        if self._stop is not None:
            self._stop()

    @property
    def is_cancelled(self) -> bool:
        """True when somebody asked for it to be cancelled."""
        return self._cancelled

    def set_queued(self, leave: Callable[[], object]) -> None:
        """It is queued; `leave` takes it out of the line."""
        self._stop = leave

    def set_running(self, invocation_id: str, stop: Callable[[], object]) -> None:
        """It has begun under this id; `stop` interrupts it."""
        self.id, self._stop = invocation_id, stop


def result_of(events: Sequence[Event]) -> Result:
    """The result that stored events of one message amount to; no events: it was cancelled before it began."""
    if not events:
        return Result("", End(reason="cancelled", detail="It was cancelled while it was queued."), None, None, "", ())
    first, events = events[0], visible(events)
    selection = next((e.actions.selection for e in events if e.author == USER and e.actions.selection), None)
    end = next((e.actions.end for e in reversed(events) if e.actions.end), None)
    is_good = end is None or end.reason == "completed"  # what failed on the way, a task of a flow, is in the events
    error = None if is_good else next((e.error for e in reversed(events) if e.error), None)
    text = "\n".join(event.text for event in _words(events))
    return Result(text, end, selection, error, first.invocation_id, tuple(events))


def _words(events: Iterable[Event]) -> list[Event]:
    """What was said to the user, in order: no words on the tasks of a flow, whose answer they become; but all questions."""
    return [e for e in events if e.author != USER and e.text and (e.actions.awaits or not (e.is_private or e.scope))]


class PreparedMessage(NamedTuple):
    """A message after the guardrails, its blobs saved, with the id of the invocation that it may begin.

    guarded: what the guardrails changed; if they blocked it, the content is empty. tools: what they left of those offered.
    """

    invocation_id: str
    content: Content
    artifact_versions: Mapping[str, int]
    guarded: tuple[Guarded, ...] = ()
    tools: tuple[OfferedTool, ...] = ()


class MessageRun:
    """One message, how it is to be run, and the handle its caller holds.

    queued: whether the message is in the inbox. prepared: None until it was looked at. context: the context variables of
    whoever sent it, in which it is answered; None when it was not sent to this process.
    """

    def __init__(self, key: SessionKey, message: Message, config: RunConfig, context: Context | None = None) -> None:
        self.key, self.message, self.config, self.context = key, message, config, context
        self.queued = False
        self.prepared: PreparedMessage | None = None
        self.invocation = Invocation(key, message.id)
        self._accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def event_id(self) -> str:
        """The id of the user event that holds the message."""
        return Origin(self.key.id, self.message.id).event_id

    @property
    def stored_message(self) -> Message:
        """The message as it is kept: what the guardrails left of it, once they have seen it."""
        if self.prepared is None:
            return self.message
        changed: dict[str, object] = {"content": self.prepared.content, "guarded": self.prepared.guarded}
        context = self.message.context
        if context.tools != self.prepared.tools:
            changed["context"] = context.model_copy(update={"tools": self.prepared.tools})
        return self.message.model_copy(update=changed)

    @property
    def blocked(self) -> MessageBlocked | None:
        """Why it is not answered, if guardrails blocked it."""
        return blocked_message(self.stored_message.guarded)

    def accept(self) -> None:
        """The message is stored."""
        if not self._accepted.done():
            self._accepted.set_result(None)

    def fail(self, problem: BaseException) -> None:
        """It will not be answered: whoever waits for its acceptance, or reads, gets the problem."""
        if not self._accepted.done():
            self._accepted.set_exception(problem)
            # Not everybody asks whether it was accepted.
            self._accepted.exception()
        self.invocation.feed.close(problem)

    async def accepted(self) -> None:
        """Returns when the message is stored; raises why it cannot be."""
        await asyncio.shield(self._accepted)
