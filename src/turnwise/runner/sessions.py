"""Session management besides answering messages: read, rewind, cancel, fork, import, delete (behaviour A44)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import Content
from turnwise.facts.errors import (
    InvocationMissing,
    MessageError,
    MessageTooLarge,
    SessionBusy,
    SessionMissing,
    StaleWriter,
    UserLimitReached,
)
from turnwise.facts.events import USER, Branch, End, Event, Rewind
from turnwise.facts.limits import RunConfig
from turnwise.facts.messages import Message
from turnwise.facts.sessions import USER_PREFIX, Session, SessionKey
from turnwise.ports.hooks import Hooks
from turnwise.runner.admission import check_delta, checked_id, checked_message, json_size
from turnwise.runner.agent_sets import AgentSets
from turnwise.runner.allowances import check_log, check_state, copied_bytes
from turnwise.runner.guardrails import Guardrails
from turnwise.runner.loops import LoopRuntimes
from turnwise.runner.message.driver import Driver
from turnwise.runner.message.invocation import MessageRun, Result, result_of
from turnwise.runner.message.open_invocations import is_being_answered, is_over, orphan_of
from turnwise.runner.queue.followers import earlier_refusal
from turnwise.runner.record.events import (
    Origin,
    closing_events,
    empty_event,
    message_of_event,
    origin_of,
    steps_of,
)
from turnwise.runner.record.journal import public_event
from turnwise.runner.record.recorder import append_between_runs
from turnwise.runner.turn.state import Services

WRITE_RETRIES = 4
"""The number of retries of a write when background jobs write in between."""
State = Literal["running", "waiting", "ended"]


class PastExchange(NamedTuple):
    """A past message of the user and its answers, to import into a session."""

    message: Content | None
    """None when the user had not asked."""
    said: tuple[Content, ...] = ()
    """The answers in order: texts, tool calls, and the results after their calls."""
    id: str | None = None
    """The id of the message; None means a new one."""


class InvocationStatus(NamedTuple):
    """The status of a message or of a whole invocation."""

    message_id: str
    state: State
    """`running` includes queued messages. `waiting` means that one of its questions or calls is open."""
    result: Result | None
    """The answer so far and its end; None while the message is queued."""
    waits: frozenset[str] = frozenset()
    """The ids of the open questions and calls."""


class ConversationImport:
    """Turns past exchanges into events. Guardrails check them as if they took place here, and files become artifacts."""

    def __init__(self, services: Services, driver: Driver, config: RunConfig) -> None:
        self._services, self._driver, self._config = services, driver, config
        self._guardrails = Guardrails(services.guardrails, config.limits.guardrail_seconds)

    async def events(self, key: SessionKey, past: Sequence[PastExchange], author: str) -> list[Event]:
        """Returns the events of the exchanges, one invocation each. Stores no events. Raises MessageError, ArtifactError.

        Args:
            author: The agent that gave the answers.
        """
        events: list[Event] = []
        for exchange in past:
            events += await self._exchange(key, exchange, author)
            await asyncio.sleep(0)  # lets other tasks run: there may be thousands of exchanges
        return events

    async def _exchange(self, key: SessionKey, exchange: PastExchange, author: str) -> list[Event]:
        """Returns the events of one past exchange: the message, if there is one, and the answers, the last with the end."""
        asked = None if exchange.message is None else await self._message_event(key, exchange.message, exchange.id)
        id_ = self._services.issuer.new_id("invocation") if asked is None else asked.invocation_id
        said = [await self._answer_event(content, author, id_) for content in exchange.said]
        answers = said or [empty_event(self._services.issuer, author, id_)]
        answers[-1] = answers[-1].with_actions(end=End())
        return answers if asked is None else [asked, *answers]

    async def _message_event(self, key: SessionKey, content: Content, message_id: str | None) -> Event:
        """Returns the event of a past message after the guardrails. Raises MessageError, MessageBlocked."""
        id_ = self._services.issuer.new_id("message") if message_id is None else checked_id("message", message_id)
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
            created_at=self._services.issuer.now(),
            content=content,
        )
        return event.with_actions(artifact_versions=dict(versions), guarded=guarded)

    async def _answer_event(self, content: Content, author: str, invocation_id: str) -> Event:
        self._check(content)
        event = empty_event(self._services.issuer, author, invocation_id, branch=Branch.of_turn(1))
        return await self._guardrails.event(event.with_content(content.replace(role="agent")))

    def _check(self, content: Content) -> None:
        """Raises MessageError or MessageTooLarge for a past answer that the log cannot hold."""
        limits = self._config.limits
        try:
            size = json_size(content)
        except ValueError as error:
            raise MessageError(f"A past answer cannot be stored: {error}.", fix="Send text that UTF-8 can write.") from None
        if size > limits.message_bytes or len(content.parts) > limits.parts:
            raise MessageTooLarge(
                f"A past answer has {size:,} bytes and {len(content.parts)} parts; {limits.message_bytes:,} and {limits.parts} "
                "are allowed.",
                fix="Leave it out, or raise limits.message_bytes or limits.parts.",
            )


def invocation_status(session: Session, events: Sequence[Event], event_id: str | None = None) -> InvocationStatus | None:
    """Returns the status of an invocation from all its events, including hidden ones. None when the message is not among
    them.

    Args:
        session: The session, read before the events.
        events: The events of the invocation.
        event_id: Limits the status to the message in this event.
    """
    asked = [index for index, event in enumerate(events) if event.author == USER and event.content is not None]
    first = next((index for index in asked if event_id in (None, events[index].id)), None)
    if first is None:
        return None
    following = next((index for index in asked if index > first), None) if event_id is not None else None
    shown = [public_event(event) for event in events[first:following]]
    result = result_of(shown)
    open_ = session.head.invocations.get(shown[0].invocation_id)
    waits = {wait.id for _, wait in open_.waits} if open_ else set()
    waits &= {event.actions.awaits.id for event in shown if event.actions.awaits}
    running = following is None and not is_over(session, shown[0].invocation_id)
    state: State = "ended" if result.end else "running" if running else "waiting" if waits else "ended"
    return InvocationStatus(origin_of(shown[0].id).message, state, result, frozenset(waits))


class Sessions:
    """Manages sessions, but never while they are answering a message."""

    def __init__(
        self, services: Services, sets: AgentSets, loop_runtimes: LoopRuntimes, hooks: Sequence[Hooks], app: str
    ) -> None:
        self._services, self._sets = services, sets
        self._store, self._artifacts, self._issuer = services.store, services.artifacts, services.issuer
        self._loop_runtimes, self._hooks, self._app = loop_runtimes, hooks, app
        self._limits = loop_runtimes.config.limits

    async def create(self, key: SessionKey, *, state: dict[str, JsonValue] | None = None) -> Session:
        """Creates an empty session, as `SessionStore.create`. Raises SessionExists, StateFull, UserLimitReached."""
        blank = await self._store.open(key, blank=True)
        if state and blank is not None and not blank.revision:
            check_state(blank, state, self._limits)
        await self._services.allowances.check_new(key, self._limits)
        return await self._store.create(key, state=state)

    async def get(self, key: SessionKey) -> Session:
        """Returns the session's head and state. Raises SessionMissing."""
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
        max_bytes: int | None = None,
    ) -> list[Event]:
        """Returns the session's events as `SessionStore.events` does, without the values of steps, which are private to
        their agent.
        """
        events = await self._store.events(
            key,
            after=after,
            before=before,
            last=last,
            limit=limit,
            invocation_id=invocation_id,
            hidden=hidden,
            max_bytes=max_bytes,
        )
        return [public_event(event) for event in events]

    async def reading(
        self, key: SessionKey, *, message_id: str | None = None, invocation_id: str | None = None
    ) -> InvocationStatus:
        """Returns the current status of the message, or of the whole invocation. Neither waits nor recovers anything.

        Raises:
            SessionMissing: The session does not exist.
            InvocationMissing: The message or invocation is unknown.
            SessionError: The message was refused.
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
            # Read again: the message may have begun after the session was read.
            session, invocation_id, event_id = await self.get(key), receipt.invocation_id, Origin(key.id, message_id).event_id
        events = await self._store.events(key, invocation_id=invocation_id, hidden=True) if invocation_id else []
        reading = invocation_status(session, events, event_id)
        if reading is None:
            raise InvocationMissing(f"Session {key.id!r} has no invocation {invocation_id!r}.", fix="Check the ids.")
        return reading

    async def message_of(self, key: SessionKey, invocation_id: str) -> Message:
        """Returns the message that began the invocation. Raises SessionMissing, InvocationMissing."""
        for event in await self._events_of(key, invocation_id):
            if event.author == USER and event.content is not None:
                return await message_of_event(self._store, key, event)
        raise InvocationMissing(f"Invocation {invocation_id!r} has no message of the user.")

    async def rewind(self, key: SessionKey, invocation_id: str, *, revision: int | None = None) -> Session:
        """Takes the session back to before the invocation. The hidden events stay in the log.

        Does not restore `app:` and `user:` state, or artifacts.

        Args:
            revision: The revision that the session must have, with no queued messages; None means any.

        Raises:
            SessionMissing: The session does not exist.
            InvocationMissing: The invocation does not exist.
            SessionBusy: The session is answering a message.
            StaleWriter: The session has another revision.
            SessionFull: Its log has reached its limit.
        """
        session = await self._require_idle(key, revision)
        check_log(session, self._limits)
        first = (await self._events_of(key, invocation_id))[0]
        rewind = Rewind(from_sequence=first.sequence or 0, invocation_id=invocation_id)
        event = empty_event(self._issuer, USER, self._issuer.new_id("rewind"))
        return await self._write_with_retry(session, [event.with_actions(rewind=rewind)], revision)

    async def write_state(self, key: SessionKey, delta: Mapping[str, JsonValue], *, revision: int | None = None) -> Session:
        """Writes state keys through a user event without content. None removes a key.

        Args:
            revision: As for `rewind`.

        Raises:
            SessionMissing: The session does not exist.
            SessionBusy: The session is answering a message.
            StaleWriter: The session has another revision.
            MessageError: A key or value cannot be stored; MessageTooLarge if it is too large.
            SessionFull, StateFull: The log or the state has reached its limit.
        """
        check_delta(delta, self._limits)
        session = await self._require_idle(key, revision)
        check_log(session, self._limits)
        check_state(session, delta, self._limits)
        event = empty_event(self._issuer, USER, self._issuer.new_id("state"))
        if not delta:
            return session
        return await self._write_with_retry(session, [event.with_actions(state_delta=dict(delta))], revision)

    async def cancel(self, key: SessionKey, invocation_id: str) -> None:
        """Cancels the invocation, running in any process or waiting. Returns when its end is recorded.

        Does nothing when it has ended. Raises SessionMissing.
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
        """Ends an open invocation if no process holds its session; otherwise requests its stop. Returns whether it was
        ended.
        """
        open_ = session.head.invocations[invocation_id]
        if session.held:
            if is_being_answered(session, open_) and session.stop != invocation_id:
                await self._store.leases.stop(session.key, invocation_id)
            return False
        orphan = orphan_of(session)
        if orphan is not None and orphan.invocation_id != invocation_id:
            # The orphan's next attempt would hide this end with the events that it takes back.
            self._loop_runtimes.current.queues.announce(session.key)
            return False
        end, steps = End(reason="cancelled"), await steps_of(self._store, session, invocation_id)
        events = closing_events(self._issuer, session.head, invocation_id, open_.agent, end, steps=steps)
        try:
            await self._write(session, events)
        except (SessionBusy, StaleWriter):
            return False
        return True

    async def fork(
        self, key: SessionKey, new_id: str, *, before_invocation: str | None = None, revision: int | None = None
    ) -> Session:
        """Creates a session of the same user with the visible log, or with the part before the invocation. Copies all
        artifacts.

        Raises SessionMissing, SessionExists, InvocationMissing, UserLimitReached; StaleWriter as `rewind` does.
        """
        more = 0 if self._artifacts is None else await copied_bytes(self._artifacts, key)
        await self._services.allowances.check_new(key, self._limits, fork=True, more=more)
        session = await self._store.fork(key, new_id, before_invocation=before_invocation, revision=revision)
        try:
            await self._copy_artifacts(key, session.key)
        except UserLimitReached:  # other requests stored something meanwhile
            await self.delete(session.key)
            raise
        return session

    async def bring(
        self,
        key: SessionKey,
        past: Sequence[PastExchange],
        *,
        author: str | None = None,
        new: bool = False,
        after: int | None = None,
    ) -> Session:
        """Imports past exchanges at the end of the session, all or none. Creates the session if it is missing.

        Each exchange becomes an ended invocation without a selection. Guardrails check all of them.

        Args:
            past: The exchanges, oldest first.
            author: The agent that gave the answers; None means the root agent.
            new: Require that the session does not exist yet.
            after: The sequence number of the last event that the caller has seen, 0 for none; None means any.

        Raises:
            MessageError: An exchange is invalid or blocked.
            ArtifactError: A file cannot be saved.
            SessionBusy: The session is answering a message.
            SessionExists: `new` was set and the session exists.
            StaleWriter: The session has events after `after`.
            SessionFull, UserLimitReached: The session or the user has reached a limit.
        """
        count = sum(max(len(exchange.said), 1) + (exchange.message is not None) for exchange in past)
        contents = [content for exchange in past for content in (exchange.message, *exchange.said) if content is not None]
        # Before the import saves files.
        await self._check_import(key, count, sum(map(json_size, contents)))
        author_name = self._sets.current.tree.root if author is None else author
        importing = ConversationImport(self._services, self._loop_runtimes.current.driver, self._loop_runtimes.config)
        events = await importing.events(key, past, author_name)
        await self._check_import(key, len(events), sum(map(json_size, events)))
        if new or await self._store.open(key) is None:
            await self._store.create(key)
        session = await self._require_idle(key)
        if after not in (None, session.last_sequence):
            raise StaleWriter(f"Session {key.id!r} has other events by now.", fix="Read it again.")
        return await self._write_with_retry(session, events) if events else session

    async def _check_import(self, key: SessionKey, events: int, size: int) -> None:
        """Checks the limits of the session and the user for this number of events. Raises SessionFull, UserLimitReached."""
        session = await self._store.open(key, blank=True)
        assert session is not None
        check_log(session, self._limits, events=events, size=size)
        if session.revision == 0:
            await self._services.allowances.check_new(key, self._limits, more=size)
        else:
            await self._services.allowances.check_storage(key, self._limits, more=size)

    async def delete(self, key: SessionKey, *, revision: int | None = None, actor: str = "") -> bool:
        """Deletes the session with its log, inbox, decisions and artifacts, but not the user's. Idempotent without a
        revision.

        Args:
            revision: The revision that the session must have; None means any.
            actor: The deleter, for the audit log.

        Returns:
            True if there was a session.

        Raises:
            SessionBusy: A process answers a message of the session.
            UserOnHold: The user has a legal hold.
            SessionMissing, StaleWriter: As for `rewind`, if a revision is given.
        """
        if revision is not None or await self._store.open(key) is not None:
            await self._require_idle(key, revision)
        deleted = await self._store.delete(key, revision=revision, actor=actor)
        if self._artifacts is not None:
            await self._artifacts.delete_session(key)
        return deleted

    async def delete_user(self, user: str, *, actor: str = "") -> None:
        """Erases a user from this app, with artifacts and API keys. Idempotent; repeat it after an error.

        Raises SessionBusy and UserOnHold. `actor` is for the audit log.
        """
        after: str | None = None
        while True:
            page = await self._store.list(self._app, user=user, after=after)
            for info in page.items:
                await self._require_idle(info.key)
            after = page.next
            if after is None:
                break
        await self._store.delete_user(self._app, user, actor=actor)
        if self._artifacts is not None:
            await self._artifacts.delete_user(self._app, user)

    async def _write_with_retry(self, session: Session, events: Sequence[Event], revision: int | None = None) -> Session:
        """Writes, and retries while only background jobs wrote since the session was read; those leave the head unchanged.

        Args:
            revision: The revision that the caller expects; then nothing is retried.
        """
        for _ in range(WRITE_RETRIES):
            try:
                return await self._write(session, events, empty_inbox=revision is not None)
            except StaleWriter:
                if revision is not None:
                    raise
                now = await self._require_idle(session.key)
                if now.head != session.head or now.created_at != session.created_at:
                    raise
                session = now
        return await self._write(session, events)

    async def _write(self, session: Session, events: Sequence[Event], *, empty_inbox: bool = False) -> Session:
        """Appends to a session that no process holds. The epoch increases, so an earlier holder can no longer write."""
        lease = self._loop_runtimes.current.driver.lease._replace(holder=self._issuer.new_id("writer"))
        return await append_between_runs(self._store, self._hooks, session, lease, events, empty_inbox=empty_inbox)

    async def _copy_artifacts(self, source: SessionKey, target: SessionKey) -> None:
        """Copies all versions of the session's own artifacts to the other session."""
        if self._artifacts is None:
            return
        for name in [info.name for info in await self._artifacts.list(source) if not info.name.startswith(USER_PREFIX)]:
            for info in await self._artifacts.versions(source, name):
                artifact = await self._artifacts.load(source, name, version=info.version)
                if artifact is not None:
                    await self._artifacts.save(target, name, artifact.data, mime_type=info.mime_type)

    async def _require_idle(self, key: SessionKey, revision: int | None = None) -> Session:
        """Returns the session if no process answers a message of it. Raises SessionMissing, SessionBusy, StaleWriter.

        Args:
            revision: The revision that the session must have; None means any.
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
