"""The caller's handle of an invocation, its result, and the internal state of one message on its way to an answer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, replace
from typing import NamedTuple

from turnwise.facts.content import Content
from turnwise.facts.errors import MessageBlocked, TurnwiseError
from turnwise.facts.events import USER, End, ErrorInfo, Event, Guarded
from turnwise.facts.limits import RunConfig
from turnwise.facts.messages import Message, OfferedTool
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey, visible
from turnwise.runner.guardrail_results import blocked_message
from turnwise.runner.record.events import Origin
from turnwise.runner.record.feed import EventFeed


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to one message."""

    text: str
    """The agents' text for the user, joined by line breaks."""
    end: End | None
    """None while the invocation waits for a reply or a tool result."""
    selection: Selection | None
    """The selected agent and the reason; None when the message was cancelled before its selection."""
    error: ErrorInfo | None
    """The last error of an invocation that did not end `completed`. Errors before a good end are only in the events."""
    invocation_id: str
    events: tuple[Event, ...]
    """The stored events, without those of abandoned attempts."""
    exception: BaseException | None = None
    """The exception that failed the invocation, with its traceback, if this process ran it; None otherwise."""

    @property
    def waiting(self) -> bool:
        return self.end is None

    @property
    def cut_off(self) -> bool:
        """True if the text is incomplete because the model or the answer reached a limit."""
        return bool(words := _words(self.events)) and words[-1].actions.cut_off is not None


class Invocation:
    """The handle of one message. The run does not depend on it: it continues when no one reads."""

    def __init__(self, key: SessionKey, message_id: str) -> None:
        self.session = key
        self.message_id = message_id
        self.id: str | None = None
        """The invocation's id; None while the message is queued."""
        self.feed = EventFeed()
        self.exception: BaseException | None = None
        """The exception that failed the invocation, if this process ran it."""
        self._cancelled = False
        self._stop: Callable[[], object] | None = None
        self._check_lease: Callable[[], Awaitable[None]] | None = None

    def events(self, *, after: int = 0) -> AsyncIterator[Event]:
        """Yields the events of this message live, from the user's event on, with partial events.

        Supports any number of readers, at any time. Ends when the invocation ends or waits. Raises the store's error when
        an event could not be stored.

        Args:
            after: Yield only stored events with a higher sequence number.
        """
        return self.feed.read(after)

    async def result(self) -> Result:
        """Waits until the invocation ends or waits, and returns the result. Raises the store's error when it could not
        continue.
        """
        await self.feed.complete()
        return replace(result_of(self.feed.stored), exception=self.exception)

    async def cancel(self) -> None:
        """Stops the invocation and returns when its end is recorded. Does nothing when it has ended or waits."""
        self.interrupt()
        with suppress(TurnwiseError):
            await self.feed.complete()

    def interrupt(self) -> None:
        """Requests the stop without waiting for it."""
        self._cancelled = True
        if self._stop is not None:
            self._stop()

    @property
    def is_cancelled(self) -> bool:
        """True if a cancellation was requested."""
        return self._cancelled

    def set_queued(self, leave: Callable[[], object]) -> None:
        """Marks the message as queued; `leave` removes it from the queue."""
        self._stop = leave

    def set_running(
        self, invocation_id: str, stop: Callable[[], object], check_lease: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Marks the invocation as begun under this id.

        Args:
            invocation_id: Its id.
            stop: Interrupts it.
            check_lease: Stops it if another process took the session. None = it does not run in this process.
        """
        self.id, self._stop, self._check_lease = invocation_id, stop, check_lease

    async def check_lease(self) -> None:
        """Stops the invocation if it runs in this process and another one took the session. Raises StoreError."""
        if self._check_lease is not None:
            await self._check_lease()


def result_of(events: Sequence[Event]) -> Result:
    """Returns the result for the stored events of one message. Without events, the message was cancelled while queued."""
    if not events:
        return Result("", End(reason="cancelled", detail="It was cancelled while it was queued."), None, None, "", ())
    first, events = events[0], visible(events)
    selection = next((e.actions.selection for e in events if e.author == USER and e.actions.selection), None)
    end = next((e.actions.end for e in reversed(events) if e.actions.end), None)
    is_good = end is None or end.reason == "completed"  # earlier failures, such as a flow's task, are only in the events
    error = None if is_good else next((e.error for e in reversed(events) if e.error), None)
    text = "\n".join(event.text for event in _words(events))
    return Result(text, end, selection, error, first.invocation_id, tuple(events))


def _words(events: Iterable[Event]) -> list[Event]:
    """Returns the events with text for the user, in order: all questions, but no answers to a flow's tasks."""
    return [e for e in events if e.author != USER and e.text and (e.actions.awaits or not (e.is_private or e.scope))]


class PreparedMessage(NamedTuple):
    """A message after guardrails, with its blobs saved."""

    invocation_id: str
    """The id that a new invocation would get."""
    content: Content
    """The content after guardrails; empty when they blocked the message."""
    artifact_versions: Mapping[str, int]
    guarded: tuple[Guarded, ...] = ()
    """The guardrails' actions."""
    tools: tuple[OfferedTool, ...] = ()
    """The offered tools that guardrails allow."""


class MessageRun:
    """One message, its configuration, and the handle that its caller holds.

    Args:
        context: The caller's context variables, in which the message is answered; None when it was not sent to this
            process.
        revision: The revision that the session must have when the message is accepted; None means any.
    """

    def __init__(
        self,
        key: SessionKey,
        message: Message,
        config: RunConfig,
        context: Context | None = None,
        revision: int | None = None,
    ) -> None:
        self.key, self.message, self.config, self.context = key, message, config, context
        self._revision = revision
        self.queued = False
        """True if the message is in the inbox."""
        self.prepared: PreparedMessage | None = None
        """None until guardrails have run."""
        self.probe: str | None = None
        """The agent that this message probes after its rest. If it fails again, the next candidate answers."""
        self.invocation = Invocation(key, message.id)
        self._accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def event_id(self) -> str:
        """The id of the user event that holds the message."""
        return Origin(self.key.id, self.message.id).event_id

    @property
    def revision(self) -> int | None:
        """The revision that the session must have now; None means any. An accepted message expects none any more."""
        return None if self.queued else self._revision

    def adopt(self, message: Message, default: RunConfig) -> None:
        """Replaces the message by the one that is in the inbox under its id, which another request may have sent."""
        self.message, self.config, self.prepared = message, message.config or default, None

    @property
    def stored_message(self) -> Message:
        """The message as stored: after guardrails, once they have run."""
        if self.prepared is None:
            return self.message
        context = self.message.context
        if context.tools != self.prepared.tools:
            context = context.replace(tools=self.prepared.tools)
        return self.message.replace(content=self.prepared.content, guarded=self.prepared.guarded, context=context)

    @property
    def blocked(self) -> MessageBlocked | None:
        """The error when guardrails blocked the message; else None."""
        return blocked_message(self.stored_message.guarded)

    def accept(self) -> None:
        """Marks the message as stored."""
        if not self._accepted.done():
            self._accepted.set_result(None)

    def fail(self, problem: BaseException) -> None:
        """Fails the message: raises the problem for the caller that waits for acceptance, and for the feed's readers."""
        if not self._accepted.done():
            self._accepted.set_exception(problem)
            # Marks the exception as retrieved: not every caller awaits the acceptance.
            self._accepted.exception()
        self.invocation.feed.close(problem)

    async def accepted(self) -> None:
        """Waits until the message is stored; raises the problem if it cannot be."""
        await asyncio.shield(self._accepted)
