"""Threads: going on from any answer of a session, not only its last, and taking answers back."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple
from weakref import WeakValueDictionary

from turnwise.facts.callers import Caller, Permission
from turnwise.facts.content import Content, ToolResultPart
from turnwise.facts.errors import InvocationMissing, SessionError, SessionExists, TurnwiseError
from turnwise.facts.events import USER, Event
from turnwise.facts.ids import Issuer, SystemIssuer
from turnwise.facts.sessions import SessionKey
from turnwise.gateway.services.messages import MessageRequest, Messages
from turnwise.gateway.services.session_scope import SessionScope
from turnwise.ports.stores import Receipt
from turnwise.runner import Invocation, InvocationStatus, Runner
from turnwise.runner.guards.guardrail_results import blocked_message
from turnwise.runner.message.invocation import result_of
from turnwise.runner.record.events import origin_of
from turnwise.transcript.waits import kind_of

PAGE = 50
QUEUED, REFUSED = "queued", "refused"


class KnownMessage(NamedTuple):
    """A message that was accepted, and what is on record of it; None when nobody began with it. before: what was said in its
    invocation before it, if it brought a result that was waited for.
    """

    receipt: Receipt
    reading: InvocationStatus | None
    before: Sequence[Event] = ()


class Threads:
    """What callers can do with single answers of a session. All of it raises Forbidden, and what the runner raises.

    user: whom the request names; None = the caller. InvocationMissing for a message that was never accepted, or was taken back.
    """

    def __init__(self, runner: Runner, whose: SessionScope, messages: Messages, issuer: Issuer | None = None) -> None:
        self._runner, self._whose, self._messages = runner, whose, messages
        self._issuer = issuer or SystemIssuer()
        self._turns: WeakValueDictionary[SessionKey, asyncio.Lock] = WeakValueDictionary()
        self._deletions: set[asyncio.Task[None]] = set()

    async def known(
        self, caller: Caller, session: str, message_id: str, user: str | None = None, *, to: Permission = "sessions:read"
    ) -> KnownMessage:
        """What is known of that message now. Nothing is waited for. to: for doing what it is asked."""
        return await self._known(self._whose.session(caller, to, session, user), message_id)

    async def whole(
        self, caller: Caller, session: str, message_id: str, user: str | None = None, *, to: Permission = "sessions:read"
    ) -> KnownMessage:
        """As `known`, with all of its invocation from that message on, also what messages after it led to.

        Of a message that guardrails blocked, nothing is on record but that.
        """
        key = self._whose.session(caller, to, session, user)
        receipt = await self._runner.store.inbox.receipt(key, message_id)
        if receipt is None:
            raise _missing()
        if receipt.invocation_id is None or blocked_message(receipt.message.guarded):
            return KnownMessage(receipt, None)
        reading = await self._runner.sessions.reading(key, invocation_id=receipt.invocation_id)
        told = _from(message_id, reading.result.events if reading.result else ())
        if not told:
            raise _missing()
        await self._check_there(key, told[0])
        return KnownMessage(receipt, reading._replace(message_id=message_id, result=result_of(told)))

    async def gone_on(self, caller: Caller, session: str, invocation_id: str, after: int, user: str | None = None) -> None:
        """Returns when that invocation has ended, or has an event above that number. SessionMissing."""
        key, signals = self._whose.session(caller, "sessions:read", session, user), self._runner.store.signals
        with signals.watch(key) as watch:
            while open_ := (await self._runner.sessions.get(key)).head.invocations.get(invocation_id):
                if open_.last > after:
                    return
                await watch.next(signals.poll_seconds)

    async def start(
        self, caller: Caller, ask: MessageRequest, after: str, *, copy: str | None = None, apart: bool = False
    ) -> Invocation:
        """`Messages.start`, behind the answer to that message of the session, once it is there.

        If another message came behind it, the session goes on without this one, which goes to a copy of what was before: so
        any answer can be gone on from, any number of times. What a call waits for goes to the session itself. A message that
        was sent before is that one. copy: the id of a copy; None = one that follows from the message's. apart: whether a
        copy is made in any case. SessionError when the answer was a question that has been answered: nothing can come
        between.
        """
        key = self._whose.session(caller, "messages:write", ask.session, ask.user)
        answered = await self._runner.attach(user=key.user, session=key.id, message_id=after)
        await answered.feed.closed()
        # Two that go on from one answer at once must not find each other's place free.
        async with self._turns.setdefault(key, asyncio.Lock()):
            place = await self._place(key, answered.feed.stored, ask, copy, apart=apart)
            return await self._messages.start(caller, ask._replace(session=place))

    async def cancel(self, caller: Caller, session: str, message_id: str, user: str | None = None) -> None:
        """Stops what answers that message, takes it out of the line, or ends what it waits for. Nothing if it has ended."""
        key = self._whose.session(caller, "invocations:cancel", session, user)
        known = await self._known(key, message_id)
        if known.receipt.state == QUEUED:
            invocation = await self._runner.attach(user=key.user, session=key.id, message_id=message_id)
            await invocation.cancel()
        elif known.reading is not None and known.reading.result is not None and known.reading.state != "ended":
            await self._runner.sessions.cancel(key, known.reading.result.invocation_id)

    async def take_back(self, caller: Caller, session: str, message_id: str, user: str | None = None, *, whole: bool) -> None:
        """Takes the session back to before that message's invocation; `whole`: deletes a session with nothing else in it.

        SessionBusy while it is answered; SessionError when others go on from the answer.
        """
        key = self._whose.session(caller, "sessions:write", session, user)
        known = await self._known(key, message_id)
        result = known.reading.result if known.reading else None
        if result is None or not result.events:
            raise SessionError("It has not been begun with.", fix="Cancel it instead.")
        if await self._next(key, result.events[-1], among=None) is not None:
            raise SessionError("Other messages came after it.", fix="Delete the answers to them first, the newest first.")
        if whole and result.events[0].sequence == 1:
            await self._runner.sessions.delete(key)
        else:
            await self._runner.sessions.rewind(key, result.invocation_id)

    def delete_after(self, invocation: Invocation) -> None:
        """Deletes the invocation's session once the invocation has ended. A session in which something is still awaited, or
        another message waits, stays.
        """

        async def delete() -> None:
            with suppress(TurnwiseError):
                await invocation.feed.closed()
                if not (await self._runner.sessions.get(invocation.session)).head.invocations:
                    await self._runner.sessions.delete(invocation.session)

        task = asyncio.create_task(delete())
        self._deletions.add(task)
        task.add_done_callback(self._deletions.discard)

    async def settled(self) -> None:
        """Returns when no session waits to be deleted."""
        while self._deletions:
            await asyncio.wait(set(self._deletions))

    async def begun(self, invocation: Invocation) -> datetime | None:
        """When the message of a handle that a door gave was begun with; None as long as it waits in line."""
        if events := invocation.feed.stored:
            return events[0].created_at
        result = (await self._runner.sessions.reading(invocation.session, message_id=invocation.message_id)).result
        return result.events[0].created_at if result else None

    async def before(self, invocation: Invocation) -> Sequence[Event]:
        """What was said in the invocation of a handle that a door gave before its message, if that brought a result that was
        waited for.
        """
        return await self._before(invocation.session, invocation.feed.stored)

    async def _known(self, key: SessionKey, message_id: str) -> KnownMessage:
        receipt = await self._runner.store.inbox.receipt(key, message_id)
        if receipt is None:
            raise _missing()
        if receipt.state == REFUSED:
            return KnownMessage(receipt, None)
        reading = await self._runner.sessions.reading(key, message_id=message_id)
        if reading.result is not None:
            await self._check_there(key, reading.result.events[0])
            return KnownMessage(receipt, reading, await self._before(key, reading.result.events))
        return KnownMessage(receipt, reading)

    async def _place(
        self, key: SessionKey, events: Sequence[Event], ask: MessageRequest, copy: str | None, *, apart: bool
    ) -> str:
        """The session in which to go on behind these events of one message."""
        if not events:
            raise SessionError("What it would go on from was cancelled before it began.", fix="Go on from another answer.")
        await self._check_there(key, events[0])
        message_id = ask.id or self._issuer.new_id("message")
        if await self._runner.store.inbox.receipt(key, message_id) is not None:
            return key.id
        session = await self._runner.sessions.get(key)
        results = ask.content.tool_results if isinstance(ask.content, Content) else ()
        if any(result.call_id in session.head.calls for result in results):
            return key.id
        following = await self._next(key, events[-1], among=events[0].invocation_id)
        if not apart and following is None and not session.queued:
            return key.id
        if following is not None and following.invocation_id == events[0].invocation_id:
            raise SessionError("What it would go on from has been answered already.", fix="Go on from a later answer.")
        copy = copy or "session-" + sha256("\0".join((key.id, message_id)).encode()).hexdigest()[:28]
        with suppress(SessionExists):
            before = following.invocation_id if following else None
            await self._runner.sessions.fork(key, copy, before_invocation=before)
        return copy

    async def _next(self, key: SessionKey, last: Event, *, among: str | None) -> Event | None:
        """The first message behind that event; with `among`, the first that began an invocation, or goes on with that. What
        an agent's own tool gave to the event's invocation is none: others said it, and nobody could go on from before it.
        """
        sequence = last.sequence or 0
        while events := await self._runner.store.events(key, after=sequence, limit=PAGE):
            for event in events:
                if event.author != USER or event.content is None:
                    continue
                if event.invocation_id == last.invocation_id and await self._is_late(key, event):
                    continue
                if among in (None, event.invocation_id) or not _goes_on(event):
                    return event
            sequence = events[-1].sequence or 0
        return None

    async def _is_late(self, key: SessionKey, event: Event) -> bool:
        """Whether the message holds only what an agent's own tools gave."""
        if event.content is None or any(not isinstance(part, ToolResultPart) for part in event.content.parts):
            return False
        told = await self._runner.sessions.events(key, invocation_id=event.invocation_id)
        late = {
            call.call_id for each in told if each.content for call in each.content.tool_calls if kind_of(call, each) == "late"
        }
        return all(result.call_id in late for result in event.content.tool_results)

    async def _before(self, key: SessionKey, events: Sequence[Event]) -> Sequence[Event]:
        if not events or events[0].content is None or not events[0].content.tool_results:
            return ()
        told = await self._runner.sessions.events(key, invocation_id=events[0].invocation_id)
        return [event for event in told if (event.sequence or 0) < (events[0].sequence or 0)]

    async def _check_there(self, key: SessionKey, first: Event) -> None:
        """InvocationMissing when a rewind hides it."""
        seen = await self._runner.store.events(key, after=(first.sequence or 1) - 1, limit=1)
        if not seen or seen[0].id != first.id:
            raise _missing()


def _from(message_id: str, events: Sequence[Event]) -> Sequence[Event]:
    """These events from that message of the user's on; none when it is not among them."""
    told = (each.author == USER and each.content is not None and origin_of(each.id).message == message_id for each in events)
    return events[next((place for place, is_it in enumerate(told) if is_it), len(events)) :]


def _goes_on(event: Event) -> bool:
    """Whether the message went on with an invocation that waited."""
    return event.actions.answers is not None or bool(event.content and event.content.tool_results)


def _missing() -> InvocationMissing:
    return InvocationMissing("There is no such message.", fix="Check the id.")
