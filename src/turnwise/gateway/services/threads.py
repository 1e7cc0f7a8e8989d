"""Continues a session from any of its answers, not only the last, and takes answers back."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from turnwise.facts.callers import Permission
from turnwise.facts.content import Content, ToolResultPart
from turnwise.facts.errors import InvocationMissing, SessionError, SessionExists, TurnwiseError
from turnwise.facts.events import USER, Event
from turnwise.facts.ids import Issuer
from turnwise.facts.sessions import SessionKey
from turnwise.facts.waits import calls_in, is_late
from turnwise.gateway.services.background import BackgroundTasks, Locks
from turnwise.gateway.services.messages import MessageRequest, Messages
from turnwise.gateway.services.session_admission import Prices, SessionScope
from turnwise.ports.stores import PAGE_BYTES, Receipt
from turnwise.runner import Invocation, InvocationStatus, Runner
from turnwise.runner.guardrail_results import blocked_message
from turnwise.runner.message.invocation import result_of
from turnwise.runner.record.events import origin_of

EVENTS_PER_READ = 50
"""How many events each read fetches."""
QUEUED, REFUSED = "queued", "refused"


class KnownMessage(NamedTuple):
    """A message that was accepted."""

    receipt: Receipt
    reading: InvocationStatus | None
    """Its recorded status; None if it was never started."""
    before: Sequence[Event] = ()
    """If the message brought a tool result: the earlier events of its invocation."""


class Threads:
    """Reads, continues, cancels and takes back single answers with the caller's rights.

    All methods raise Forbidden and the runner's
    errors, and InvocationMissing for a message that was never accepted or that a rewind hides.
    """

    def __init__(
        self,
        runner: Runner,
        scope: SessionScope,
        messages: Messages,
        locks: Locks,
        tasks: BackgroundTasks,
        prices: Prices,
        issuer: Issuer,
    ) -> None:
        self._runner, self._scope, self._messages = runner, scope, messages
        self._locks, self._tasks, self._prices, self._issuer = locks, tasks, prices, issuer

    async def known(self, session: str, message_id: str, *, to: Permission = "sessions:read") -> KnownMessage:
        """Returns the message's current status without waiting. `to` is the permission that the operation needs."""
        return await self._find_message(self._scope.session(to, session), message_id)

    async def whole(self, session: str, message_id: str, *, to: Permission = "sessions:read") -> KnownMessage:
        """Returns the message's status with all events of its invocation from this message on, including later messages.

        For a message that guardrails blocked, there is no status.
        """
        key = self._scope.session(to, session)
        receipt = await self._runner.store.inbox.receipt(key, message_id)
        if receipt is None:
            raise _missing()
        if receipt.invocation_id is None or blocked_message(receipt.message.guarded):
            return KnownMessage(receipt, None)
        reading = await self._runner.sessions.reading(key, invocation_id=receipt.invocation_id)
        answer_events = _events_from(message_id, reading.result.events if reading.result else ())
        if not answer_events:
            raise _missing()
        await self._require_visible(key, answer_events[0])
        return KnownMessage(receipt, reading._replace(message_id=message_id, result=result_of(answer_events)))

    async def wait_for_progress(self, session: str, invocation_id: str, after: int) -> None:
        """Waits until the invocation has ended or has an event above the sequence number. Raises SessionMissing."""
        key, signals = self._scope.session("sessions:read", session), self._runner.store.signals
        with signals.watch(key) as watch:
            while open_ := (await self._runner.sessions.get(key)).head.invocations.get(invocation_id):
                if open_.last > after:
                    return
                await watch.next(signals.poll_seconds)

    async def start(self, request: MessageRequest, after: str, *, copy: str | None = None, apart: bool = False) -> Invocation:
        """Sends a message that follows the answer to message `after`. Waits for that answer first.

        If other messages follow the answer already, the message goes to a fork that ends with the answer. Any answer can thus
        be continued any number of times. Results of open tool calls always go to the session itself. A
        message that was sent before is found again.

        Args:
            request: The message.
            after: The id of the message; its answer is continued.
            copy: The id of the fork; None to derive it from the message's id.
            apart: Whether to fork in any case.

        Raises:
            SessionError: The answer was a question that has been answered, so nothing can be inserted after it.
        """
        key = self._scope.session("messages:write", request.session)
        answered = await self._runner.attach(user=key.user, session=key.id, message_id=after)
        await answered.feed.complete()
        # Two concurrent requests that continue one answer must not both find the same place free.
        async with self._locks.of(key):
            place = await self._place(key, answered.feed.stored, request, copy, apart=apart)
            return await self._messages.start(request._replace(session=place))

    async def cancel(self, session: str, message_id: str) -> None:
        """Cancels the message: stops its run, removes it from the queue, or ends its waits. Does nothing if it has ended."""
        key = self._scope.session("invocations:cancel", session)
        known = await self._find_message(key, message_id)
        if known.receipt.state == QUEUED:
            invocation = await self._runner.attach(user=key.user, session=key.id, message_id=message_id)
            await invocation.cancel()
        elif known.reading is not None and known.reading.result is not None and known.reading.state != "ended":
            await self._runner.sessions.cancel(key, known.reading.result.invocation_id)

    async def take_back(self, session: str, message_id: str, *, whole: bool) -> None:
        """Rewinds the session to before the message's invocation.

        Args:
            session: The session's id.
            message_id: The message's id.
            whole: Whether to delete the session if it holds nothing else.

        Raises:
            SessionBusy: The message is being answered.
            SessionError: The message was not started, or other messages follow its answer.
        """
        key = self._scope.session("sessions:write", session)
        known = await self._find_message(key, message_id)
        result = known.reading.result if known.reading else None
        if result is None or not result.events:
            raise SessionError("The message has not been started.", fix="Cancel it instead.")
        if await self._next_message(key, result.events[-1], among=None) is not None:
            raise SessionError("Other messages follow this one.", fix="Delete the answers to them first, the newest first.")
        await self._prices.change(key)
        if whole and result.events[0].sequence == 1:
            await self._runner.sessions.delete(key)
        else:
            await self._runner.sessions.rewind(key, result.invocation_id)

    def delete_after(self, invocation: Invocation) -> None:
        """Deletes the invocation's session in the background, once the invocation has ended.

        Keeps a session that has other open invocations or queued messages.
        """

        async def delete() -> None:
            with suppress(TurnwiseError):
                await invocation.feed.closed()
                if not (await self._runner.sessions.get(invocation.session)).head.invocations:
                    await self._runner.sessions.delete(invocation.session)

        self._tasks.start(delete())

    async def begun(self, invocation: Invocation) -> datetime | None:
        """Returns when the message was started; None while it is queued."""
        if events := invocation.feed.stored:
            return events[0].created_at
        result = (await self._runner.sessions.reading(invocation.session, message_id=invocation.message_id)).result
        return result.events[0].created_at if result else None

    async def before(self, invocation: Invocation) -> Sequence[Event]:
        """Returns the earlier events of the message's invocation, if the message brought a tool result; otherwise nothing."""
        return await self._before(invocation.session, invocation.feed.stored)

    async def _find_message(self, key: SessionKey, message_id: str) -> KnownMessage:
        """Returns a message's receipt with its answer and the events before it. Raises unless the caller may see one."""
        receipt = await self._runner.store.inbox.receipt(key, message_id)
        if receipt is None:
            raise _missing()
        if receipt.state == REFUSED:
            return KnownMessage(receipt, None)
        reading = await self._runner.sessions.reading(key, message_id=message_id)
        if reading.result is not None:
            await self._require_visible(key, reading.result.events[0])
            return KnownMessage(receipt, reading, await self._before(key, reading.result.events))
        return KnownMessage(receipt, reading)

    async def _place(
        self, key: SessionKey, events: Sequence[Event], request: MessageRequest, copy: str | None, *, apart: bool
    ) -> str:
        """Returns the id of the session that the message goes to, which follows these events of one message."""
        if not events:
            raise SessionError(
                "The answer to continue from was cancelled before it started.", fix="Continue from another answer."
            )
        await self._require_visible(key, events[0])
        message_id = request.id or self._issuer.new_id("message")
        if await self._runner.store.inbox.receipt(key, message_id) is not None:
            return key.id
        session = await self._runner.sessions.get(key)
        results = request.content.tool_results if isinstance(request.content, Content) else ()
        if any(result.call_id in session.head.calls for result in results):
            return key.id
        following = await self._next_message(key, events[-1], among=events[0].invocation_id)
        if not apart and following is None and not session.queued:
            return key.id
        if following is not None and following.invocation_id == events[0].invocation_id:
            raise SessionError("The question to continue from has been answered already.", fix="Continue from a later answer.")
        copy = copy or "session-" + sha256("\0".join((key.id, message_id)).encode()).hexdigest()[:28]
        await self._prices.fork(key)
        with suppress(SessionExists):
            before = following.invocation_id if following else None
            await self._runner.sessions.fork(key, copy, before_invocation=before)
        return copy

    async def _next_message(self, key: SessionKey, last: Event, *, among: str | None) -> Event | None:
        """Returns the first user message after the event; None if there is none. Late tool results of its invocation do
        not count.

        Args:
            key: The session.
            last: The event to start after.
            among: If set, only messages that start an invocation or continue this one.
        """
        sequence = last.sequence or 0
        while events := await self._runner.store.events(key, after=sequence, limit=EVENTS_PER_READ, max_bytes=PAGE_BYTES):
            for event in events:
                if event.author != USER or event.content is None:
                    continue
                if event.invocation_id == last.invocation_id and await self._is_late(key, event):
                    continue
                if among in (None, event.invocation_id) or not _continues_invocation(event):
                    return event
            sequence = events[-1].sequence or 0
        return None

    async def _is_late(self, key: SessionKey, event: Event) -> bool:
        """Returns whether the message brings only results of an agent's own tools."""
        if event.content is None or any(not isinstance(part, ToolResultPart) for part in event.content.parts):
            return False
        answer_events = await self._runner.sessions.events(key, invocation_id=event.invocation_id)
        late = {call.call_id for call in calls_in(answer_events) if is_late(call)}
        return all(result.call_id in late for result in event.content.tool_results)

    async def _before(self, key: SessionKey, events: Sequence[Event]) -> Sequence[Event]:
        if not events or events[0].content is None or not events[0].content.tool_results:
            return ()
        answer_events = await self._runner.sessions.events(key, invocation_id=events[0].invocation_id)
        return [event for event in answer_events if (event.sequence or 0) < (events[0].sequence or 0)]

    async def _require_visible(self, key: SessionKey, first: Event) -> None:
        """Raises InvocationMissing if a rewind hides the event."""
        seen = await self._runner.store.events(key, after=(first.sequence or 1) - 1, limit=1)
        if not seen or seen[0].id != first.id:
            raise _missing()


def _events_from(message_id: str, events: Sequence[Event]) -> Sequence[Event]:
    """Returns the events from this user message on; empty if they do not contain it."""
    matches = (each.author == USER and each.content is not None and origin_of(each.id).message == message_id for each in events)
    return events[next((place for place, is_it in enumerate(matches) if is_it), len(events)) :]


def _continues_invocation(event: Event) -> bool:
    """Returns whether the message continued an invocation that waited."""
    return event.actions.answers is not None or bool(event.content and event.content.tool_results)


def _missing() -> InvocationMissing:
    return InvocationMissing("There is no such message.", fix="Check the id.")
