"""What can be done with a session besides answering its messages (behaviour A44)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import Content
from turnwise.facts.errors import InvocationMissing, MessageError, MessageTooLarge, SessionBusy, SessionMissing, StaleWriter
from turnwise.facts.events import USER, End, Event, Rewind
from turnwise.facts.limits import RunConfig
from turnwise.facts.messages import Message
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.hooks import Hooks
from turnwise.ports.stores import ArtifactStore
from turnwise.runner.admission import check_delta, checked_id, checked_message
from turnwise.runner.guards.guardrails import Guardrails
from turnwise.runner.loops import LoopRuntimes
from turnwise.runner.message.continuation import is_being_answered, is_over
from turnwise.runner.message.driver import Driver
from turnwise.runner.message.invocation import MessageRun, Result, result_of
from turnwise.runner.message.recovery_rules import orphan_of
from turnwise.runner.queue.followers import earlier_refusal
from turnwise.runner.record.events import (
    Origin,
    closing_events,
    empty_event,
    message_of_event,
    origin_of,
    steps_of,
    with_actions,
)
from turnwise.runner.record.journal import public_event
from turnwise.runner.record.recorder import append_between_runs
from turnwise.runner.turn.state import Runtime


class PastExchange(NamedTuple):
    """A message of the user's, and what was said to it, in order: texts, calls of tools, and behind them their results.

    message: None = nobody had asked. id: the message's; None = it gets one.
    """

    message: Content | None
    said: tuple[Content, ...] = ()
    id: str | None = None


class ConversationImport:
    """Makes events of exchanges, for a session. Guardrails look at each as if it were had here, and files become artifacts."""

    def __init__(self, runtime: Runtime, driver: Driver, config: RunConfig) -> None:
        self._runtime, self._driver, self._config = runtime, driver, config
        self._guardrails = Guardrails(runtime.guardrails, config.limits.guardrail_seconds)

    async def events(self, key: SessionKey, past: Sequence[PastExchange], author: str) -> list[Event]:
        """The events of these exchanges, one invocation for each; `author` said what was said. MessageError, ArtifactError;
        nothing is stored of them yet.
        """
        found: list[Event] = []
        for exchange in past:
            found += await self._exchange(key, exchange, author)
            await asyncio.sleep(0)  # others have their turn in between: there may be thousands
        return found

    async def _exchange(self, key: SessionKey, exchange: PastExchange, author: str) -> list[Event]:
        asked = None if exchange.message is None else await self._message_event(key, exchange.message, exchange.id)
        id_ = self._runtime.issuer.new_id("invocation") if asked is None else asked.invocation_id
        said = [await self._answer_event(content, author, id_) for content in exchange.said]
        answers = said or [empty_event(self._runtime.issuer, author, id_)]
        answers[-1] = with_actions(answers[-1], end=End())
        return answers if asked is None else [asked, *answers]

    async def _message_event(self, key: SessionKey, content: Content, given: str | None) -> Event:
        id_ = self._runtime.issuer.new_id("message") if given is None else checked_id("message", given)
        message = Message(id=id_, content=checked_message(content, self._config.limits))
        run = MessageRun(key, message, self._config)
        await self._driver.prepare(run)
        if run.blocked:
            raise run.blocked
        assert run.prepared is not None
        _, content, versions, guarded, _ = run.prepared
        event = Event(
            id=run.event_id,
            author=USER,
            invocation_id=run.prepared.invocation_id,
            created_at=self._runtime.issuer.now(),
            content=content,
        )
        return with_actions(event, artifact_versions=dict(versions), guarded=guarded)

    async def _answer_event(self, content: Content, author: str, invocation_id: str) -> Event:
        self._check(content)
        event = empty_event(self._runtime.issuer, author, invocation_id, branch="1")
        return await self._guardrails.event(event.model_copy(update={"content": content.model_copy(update={"role": "agent"})}))

    def _check(self, content: Content) -> None:
        limits = self._config.limits
        try:
            size = len(content.model_dump_json())
        except ValueError as error:
            raise MessageError(f"A past answer cannot be stored: {error}.", fix="Send text that UTF-8 can write.") from None
        if size > limits.message_bytes or len(content.parts) > limits.parts:
            raise MessageTooLarge(
                f"A past answer has {size:,} bytes and {len(content.parts)} parts; {limits.message_bytes:,} and {limits.parts} "
                "are allowed.",
                fix="Leave it out, or raise limits.message_bytes or limits.parts.",
            )


State = Literal["running", "waiting", "ended"]


class InvocationStatus(NamedTuple):
    """state: `running` also while it is queued; `waiting` as long as one of its questions or calls is open. result: what was
    said so far, and how it ended; None while it is queued. waits: the ids of what is open.
    """

    message_id: str
    state: State
    result: Result | None
    waits: frozenset[str] = frozenset()


def invocation_status(session: Session, events: Sequence[Event], event_id: str | None = None) -> InvocationStatus | None:
    """The reading of an invocation by all its events, the hidden ones too; with `event_id`, of the message in that event alone.

    The session has to be read before its events. None when there is no such message among them.
    """
    asked = [index for index, event in enumerate(events) if event.author == USER and event.content is not None]
    first = next((index for index in asked if event_id in (None, events[index].id)), None)
    if first is None:
        return None
    following = next((index for index in asked if index > first), None) if event_id is not None else None
    told = [public_event(event) for event in events[first:following]]
    result = result_of(told)
    open_ = session.head.invocations.get(told[0].invocation_id)
    waits = {wait.id for _, wait in open_.waits} if open_ else set()
    waits &= {event.actions.awaits.id for event in told if event.actions.awaits}
    running = following is None and not is_over(session, told[0].invocation_id)
    state: State = "ended" if result.end else "running" if running else "waiting" if waits else "ended"
    return InvocationStatus(origin_of(told[0].id).message, state, result, frozenset(waits))


WRITE_ATTEMPTS = 4
"""How often a write is made again that a background job came between."""


class Sessions:
    """Rewind, cancel, fork and delete, never in the middle of a running answer."""

    def __init__(self, runtime: Runtime, loop_runtimes: LoopRuntimes, hooks: Sequence[Hooks], app: str) -> None:
        self._runtime, self._store, self._artifacts, self._issuer = runtime, runtime.store, runtime.artifacts, runtime.issuer
        self._loop_runtimes, self._hooks, self._app = loop_runtimes, hooks, app

    async def create(self, key: SessionKey, *, state: dict[str, JsonValue] | None = None) -> Session:
        """An empty session, as `SessionStore.create` makes it. SessionExists."""
        return await self._store.create(key, state=state)

    async def get(self, key: SessionKey) -> Session:
        """The session's head and state. SessionMissing."""
        session = await self._store.open(key)
        if session is None:
            raise SessionMissing(f"Session {key.id!r} of user {key.user!r} does not exist.", fix="Check the ids.")
        return session

    async def events(
        self,
        key: SessionKey,
        *,
        after: int = 0,
        before: int | None = None,
        last: int | None = None,
        limit: int | None = None,
        invocation_id: str | None = None,
        hidden: bool = False,
    ) -> list[Event]:
        """The session's events as `SessionStore.events` gives them, but for what steps gave: that is for their agent alone."""
        events = await self._store.events(
            key, after=after, before=before, last=last, limit=limit, invocation_id=invocation_id, hidden=hidden
        )
        return [public_event(event) for event in events]

    async def reading(
        self, key: SessionKey, *, message_id: str | None = None, invocation_id: str | None = None
    ) -> InvocationStatus:
        """What is on record of that message, or of that whole invocation, now. Nothing is waited for, nor taken up.

        SessionMissing, InvocationMissing; SessionError when the message was refused.
        """
        session, event_id = await self.get(key), None
        if message_id is not None:
            receipt = await self._store.inbox.receipt(key, message_id)
            if receipt is None:
                raise InvocationMissing(f"Session {key.id!r} never accepted message {message_id!r}.", fix="Check the ids.")
            if receipt.state == "refused":
                raise earlier_refusal(receipt)
            if receipt.invocation_id is None:
                return InvocationStatus(message_id, "running", None)
            # Once more: it may have begun after the session was read.
            session, invocation_id, event_id = await self.get(key), receipt.invocation_id, Origin(key.id, message_id).event_id
        events = await self._store.events(key, invocation_id=invocation_id, hidden=True) if invocation_id else []
        reading = invocation_status(session, events, event_id)
        if reading is None:
            raise InvocationMissing(f"Session {key.id!r} has no invocation {invocation_id!r}.", fix="Check the ids.")
        return reading

    async def message_of(self, key: SessionKey, invocation_id: str) -> Message:
        """The message that began that invocation. SessionMissing, InvocationMissing."""
        for event in await self._events_of(key, invocation_id):
            if event.author == USER and event.content is not None:
                return await message_of_event(self._store, key, event)
        raise InvocationMissing(f"Invocation {invocation_id!r} has no message of the user.")

    async def rewind(self, key: SessionKey, invocation_id: str, *, revision: int | None = None) -> Session:
        """Takes the session back to before that invocation; what is hidden stays in the log.

        `app:` and `user:` state, and artifacts, are not taken back. revision: which the session must have. SessionMissing,
        InvocationMissing, SessionBusy, StaleWriter.
        """
        session = await self._require_idle(key, revision)
        first = (await self._events_of(key, invocation_id))[0]
        rewind = Rewind(from_sequence=first.sequence or 0, invocation_id=invocation_id)
        event = empty_event(self._issuer, USER, self._issuer.new_id("rewind"))
        return await self._write_with_retry(session, [with_actions(event, rewind=rewind)])

    async def write_state(self, key: SessionKey, delta: Mapping[str, JsonValue], *, revision: int | None = None) -> Session:
        """Writes these keys of the state, as an event of the user's that says nothing; None removes a key.

        revision: which the session must have. SessionMissing, SessionBusy, StaleWriter; MessageError, MessageTooLarge for
        what cannot be kept.
        """
        check_delta(delta, self._loop_runtimes.config.limits)
        session = await self._require_idle(key, revision)
        event = empty_event(self._issuer, USER, self._issuer.new_id("state"))
        return await self._write_with_retry(session, [with_actions(event, state_delta=dict(delta))]) if delta else session

    async def cancel(self, key: SessionKey, invocation_id: str) -> None:
        """Cancels that invocation, running anywhere or waiting; returns when its end is recorded.

        Nothing happens when it has ended. SessionMissing.
        """
        for run in self._loop_runtimes.current.queues.running():
            if run.key == key and run.invocation.id == invocation_id:
                await run.invocation.cancel()
                return
        with self._store.signals.watch(key) as watch:
            while (session := await self.get(key)).head.invocations.get(invocation_id) is not None:
                if not await self._try_cancel(session, invocation_id):
                    await watch.next(self._store.signals.poll_seconds)

    async def _try_cancel(self, session: Session, invocation_id: str) -> bool:
        """Ends an open invocation if nobody runs anything in its session, else has it stopped; whether it was ended."""
        open_ = session.head.invocations[invocation_id]
        if session.held:
            if is_being_answered(session, open_) and session.stop != invocation_id:
                await self._store.leases.stop(session.key, invocation_id)
            return False
        orphan = orphan_of(session)
        if orphan is not None and orphan.invocation_id != invocation_id:
            # What another attempt takes back must not be the end of something else.
            self._loop_runtimes.current.queues.take_up(session.key)
            return False
        end, steps = End(reason="cancelled"), await steps_of(self._store, session, invocation_id)
        events = closing_events(self._issuer, session.head, invocation_id, open_.agent, end, steps=steps)
        try:
            await self._write(session, events)
        except (SessionBusy, StaleWriter):
            return False
        return True

    async def fork(self, key: SessionKey, new_id: str, *, before_invocation: str | None = None) -> Session:
        """A new session of the same user with the visible log, or with what came before that invocation.

        The session's artifacts are copied, all versions. SessionMissing, SessionExists, InvocationMissing.
        """
        session = await self._store.fork(key, new_id, before_invocation=before_invocation)
        if self._artifacts is not None:
            for latest in await self._artifacts.list(key):
                if not latest.name.startswith("user:"):
                    await self._copy(self._artifacts, key, session.key, latest.name)
        return session

    async def bring(
        self, key: SessionKey, past: Sequence[PastExchange], *, author: str | None = None, new: bool = False
    ) -> Session:
        """Puts exchanges that were had elsewhere at the end of the session, which is made if it is missing: each is an ended
        invocation that nobody was selected for. author: who said what was said; None = the root agent. new: the session has
        to be missing.

        Guardrails look at all of it. What is there then is all of them or none. MessageError, ArtifactError, SessionBusy,
        SessionExists.
        """
        said = self._runtime.tree.root if author is None else author
        events = await ConversationImport(self._runtime, self._loop_runtimes.current.driver, self._loop_runtimes.config).events(
            key, past, said
        )
        if new or await self._store.open(key) is None:
            await self._store.create(key)
        session = await self._require_idle(key)
        return await self._write_with_retry(session, events) if events else session

    async def delete(self, key: SessionKey) -> None:
        """Deletes the session, its log, inbox, decisions and artifacts; not the user's. Idempotent. SessionBusy."""
        if await self._store.open(key) is not None:
            await self._require_idle(key)
        await self._store.delete(key)
        if self._artifacts is not None:
            await self._artifacts.delete_session(key)

    async def delete_user(self, user: str) -> None:
        """Deletes everything that is kept of a user in this app. Idempotent. SessionBusy."""
        after: str | None = None
        while True:
            page = await self._store.list(self._app, user=user, after=after)
            for info in page.items:
                await self._require_idle(info.key)
            after = page.next
            if after is None:
                break
        await self._store.delete_user(self._app, user)
        if self._artifacts is not None:
            await self._artifacts.delete_user(self._app, user)

    async def _write_with_retry(self, session: Session, events: Sequence[Event]) -> Session:
        """As `_write`, again when only a background job wrote since the session was read: it leaves the head as it is."""
        for _ in range(WRITE_ATTEMPTS):
            try:
                return await self._write(session, events)
            except StaleWriter:
                now = await self._require_idle(session.key)
                if now.head != session.head or now.created_at != session.created_at:
                    raise
                session = now
        return await self._write(session, events)

    async def _write(self, session: Session, events: Sequence[Event]) -> Session:
        """Appends to a session that nobody holds. Whoever held it before cannot come back to it: the epoch goes up."""
        lease = self._loop_runtimes.current.driver.lease._replace(holder=self._issuer.new_id("writer"))
        return await append_between_runs(self._store, self._hooks, session, lease, events)

    async def _copy(self, artifacts: ArtifactStore, source: SessionKey, target: SessionKey, name: str) -> None:
        for info in await artifacts.versions(source, name):
            artifact = await artifacts.load(source, name, version=info.version)
            if artifact is not None:
                await artifacts.save(target, name, artifact.data, mime_type=info.mime_type)

    async def _require_idle(self, key: SessionKey, revision: int | None = None) -> Session:
        """The session, if nobody answers a message of it, here or in another process. SessionMissing, SessionBusy.

        revision: which it must have; None = any. StaleWriter.
        """
        session = await self.get(key)
        if revision not in (None, session.revision):
            raise StaleWriter(f"Session {key.id!r} has revision {session.revision} by now.", fix="Read it again.")
        loop_runtime = self._loop_runtimes.current
        elsewhere = session.holder not in (None, loop_runtime.driver.lease.holder)
        if elsewhere or any(run.key == key for run in loop_runtime.queues.running()):
            raise _busy(key)
        return session

    async def _events_of(self, key: SessionKey, invocation_id: str) -> list[Event]:
        events = await self._store.events(key, invocation_id=invocation_id)
        if not events:
            raise InvocationMissing(f"Session {key.id!r} has no visible invocation {invocation_id!r}.", fix="Check its events.")
        return events


def _busy(key: SessionKey) -> SessionBusy:
    return SessionBusy(f"Session {key.id!r} is answering a message.", fix="Wait for its end, or cancel it first.")
