"""Leases: one writer per session. Takes and releases a session's lease, and finds sessions without a living holder."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, Literal

from sqlalchemy import Connection, bindparam, func, literal_column, not_, or_, select, update

from turnwise.facts.errors import SessionBusy, StaleWriter
from turnwise.facts.events import USER, Event
from turnwise.facts.messages import Message
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.stores import Holder, Lease
from turnwise.stores.sql import inbox
from turnwise.stores.sql.append_plan import AppendPlan
from turnwise.stores.sql.catalog import open_session
from turnwise.stores.sql.heartbeats import Heartbeats, is_alive
from turnwise.stores.sql.ids import check_limit
from turnwise.stores.sql.log import (
    AdvancedRow,
    advance_statement,
    advanced_values,
    is_unchanged,
    missing_or_stale,
    session_missing,
    stored_ids,
    token_params,
    write,
)
from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.stores.sql.rows import moment, time_text
from turnwise.stores.sql.tables import (
    LEASE_RELEASED,
    clock,
    is_leased,
    is_session,
    owner_of,
    processes,
    session_params,
    sessions,
)
from turnwise.stores.sql.worker_pool import Executor

_s, _p = sessions.c, processes.c

# Written out, because a partial index is used only for exactly its own condition.
_MAY_BE_DUE = or_(_s.lease_holder.is_not(None), _s.queued > literal_column("0"))
DUE = (
    select(_s.user_id, _s.session_id)
    .where(_s.app == bindparam("at_app"), _MAY_BE_DUE, not_(is_leased()))
    # In random order, so that sessions that stay due do not starve the others.
    .order_by(func.random())
    .limit(bindparam("at_most"))
)
_STOP = update(sessions).where(is_session()).values(stop=bindparam("invocation"))
STOPS = select(_s.app, _s.user_id, _s.session_id, _s.stop).where(_s.lease_holder == bindparam("holder"), _s.stop.is_not(None))


# Its first condition is exactly that of a partial index.
_EXPIRES = (_s.app == bindparam("at_app"), _s.expires_at.is_not(None))
EXPIRED = (
    select(_s.user_id, _s.session_id)
    .where(*_EXPIRES, _s.expires_at <= bindparam("at_time"), not_(is_leased()))
    .order_by(func.random())
    .limit(bindparam("at_most"))
)
NEXT_EXPIRY = (
    select(_s.user_id, _s.session_id, _s.expires_at)
    .where(*_EXPIRES, _s.expires_at > bindparam("at_time"))
    .order_by(_s.expires_at)
    .limit(1)
)


def expired(connection: Connection, app: str, now: str, limit: int) -> list[SessionKey]:
    check_limit(limit)
    found = connection.execute(EXPIRED, {"at_app": app, "at_time": now, "at_most": limit})
    return [SessionKey(app, row.user_id, row.session_id) for row in found]


def next_expiry(connection: Connection, app: str, now: str) -> tuple[SessionKey, datetime] | None:
    row = connection.execute(NEXT_EXPIRY, {"at_app": app, "at_time": now}).first()
    return row and (SessionKey(app, row.user_id, row.session_id), moment(row.expires_at))


def due(connection: Connection, app: str, limit: int) -> list[SessionKey]:
    check_limit(limit)
    found = connection.execute(DUE, {"at_app": app, "at_most": limit})
    return [SessionKey(app, row.user_id, row.session_id) for row in found]


_HELD = (
    select(_s.lease_holder, func.count().label("sessions"))
    .where(_s.app == bindparam("at_app"), _MAY_BE_DUE, _s.lease_holder.is_not(None))
    .group_by(_s.lease_holder)
)
_ALIVE = select(_p.name, _p.started_at, _p.seconds, (clock() - _p.beat).label("age"), _p.serves).order_by(_p.name)


def holders(connection: Connection, app: str) -> list[Holder]:
    """Returns the holders with a heartbeat."""
    held = {row.lease_holder: row.sessions for row in connection.execute(_HELD, {"at_app": app})}
    rows = connection.execute(_ALIVE).all()
    # In a database in memory nothing beats: its holders live as long as their process.
    in_memory = connection.dialect.name == "sqlite" and connection.engine.url.database in {None, "", ":memory:"}
    return [
        Holder(
            row.name,
            moment(row.started_at),
            0.0 if in_memory else row.age,
            row.seconds,
            held.get(row.name, 0),
            _agents_of(row.serves, app),
        )
        for row in rows
    ]


def _agents_of(serves: str | None, app: str) -> frozenset[str] | None:
    """Returns the agents of an app in the text that `serves_text` made; none if its process serves another app."""
    if serves is None:
        return None
    served = json.loads(serves)
    return frozenset(served["agents"] if served["app"] == app else ())


def serves_text(app: str, agents: Collection[str]) -> str:
    """Returns the text for the heartbeat of a holder that answers with these agents."""
    return json.dumps({"app": app, "agents": sorted(agents)})


def request_stop(connection: Connection, key: SessionKey, invocation_id: str) -> None:
    """Requests the stop of an open invocation.

    Does nothing when the session does not exist or the invocation is not open: a request to stop another invocation stays.
    """
    if inbox.lock_session(connection, key) is None:
        return
    session = open_session(connection, key)
    if session is not None and invocation_id in session.head.invocations:
        connection.execute(_STOP, session_params(key) | {"invocation": invocation_id})


def stop_requests(connection: Connection, holder: str) -> list[tuple[SessionKey, str]]:
    found = connection.execute(STOPS, {"holder": holder})
    return [(SessionKey(row.app, row.user_id, row.session_id), row.stop) for row in found]


_IS_OURS = or_(_s.lease_holder.is_(None), _s.lease_holder == bindparam("holder"))
_SAME_EPOCH = is_session() & (_s.epoch == bindparam("at_epoch")) & (_s.created_at == bindparam("at_created"))
_HOLDS = select(_s.number).where(_SAME_EPOCH, _s.lease_holder == bindparam("holder"))
_RELEASE = update(sessions).where(_SAME_EPOCH).values(LEASE_RELEASED)

_Claim = Literal["begin", "begin oldest", "begin contended", "take", "take and release"]
_From = Literal["nobody", "anybody"]
"""`anybody` also claims a session with a holder; only when its row is locked and the holder was found dead."""


@dataclass(frozen=True, slots=True)
class BeginRequest:
    """The parameters of `begin`."""

    lease: Lease
    message: Message
    started: inbox.Started
    queue_limit: int | None
    now: str
    new: bool
    revision: int | None


def start_of(session: Session, message: Message, events: Sequence[Event]) -> inbox.Started:
    """Returns the invocation that these events start for a message, and the number of the event with its content."""
    numbered = enumerate(events, session.last_sequence + 1)
    by_user = (number for number, event in numbered if event.author == USER and event.content == message.content)
    return inbox.Started(invocation_of(events), next(by_user, None))


def invocation_of(events: Sequence[Event]) -> str | None:
    """Returns the invocation that a message starts: that of its user event. Events that end older invocations may come
    before it.
    """
    by_user = (event.invocation_id for event in events if event.author == USER)
    return next(by_user, events[0].invocation_id if events else None)


def begin(connection: Connection, plan: AppendPlan, start: BeginRequest) -> Session | SessionBusy:
    """Takes the lease and writes the plan.

    Returns:
        The session. SessionBusy is returned, not raised, so that the queued message is committed.
    """
    plan = _in_next_epoch(plan)
    if plan.before.revision == 0:
        row = _insert_leased_session(connection, plan, start)
    elif plan.before.queued:
        row = None
    else:
        row = _claim(connection, plan, start.lease, "begin", "nobody", empty_inbox=True)
    if row is None:
        return _begin_contended(connection, plan, start)
    _mark_started(connection, row, start)
    return write(connection, row, plan, holder=start.lease.holder)


class NotNext(Exception):
    """The message is not the oldest of its inbox, or somebody else has the session. Internal to the store."""


def begin_oldest(connection: Connection, plan: AppendPlan, start: BeginRequest) -> Session:
    """Takes the lease of a free session, begins its oldest message, and writes the plan. Raises NotNext."""
    plan = _in_next_epoch(plan)
    row = _claim(connection, plan, start.lease, "begin oldest", "nobody")
    if row is None or not inbox.start_oldest(connection, row, start.message, start.started):
        raise NotNext
    return write(connection, row, plan, holder=start.lease.holder)


def take(connection: Connection, plan: AppendPlan, lease: Lease, *, release: bool, empty_inbox: bool) -> Session:
    """Takes the lease and writes the plan. With `release` it releases the lease again."""
    plan = _in_next_epoch(plan)
    claim: _Claim = "take and release" if release else "take"
    moved = _claim(connection, plan, lease, claim, "nobody", empty_inbox=empty_inbox)
    if moved is None:
        row = inbox.lock_session(connection, plan.before.key)
        if row is None:
            raise session_missing(plan.before.key)
        earlier = _earlier_take(connection, row, plan, lease, release=release)
        if earlier is not None:
            return earlier
        if _is_held_by_another(connection, row, lease):
            raise _busy(plan.before, queued=False)
        # The holder is dead, or released the session since the first attempt.
        moved = _claim(connection, plan, lease, claim, "anybody", empty_inbox=empty_inbox)
    if moved is None:
        raise missing_or_stale(connection, plan.before.key)
    return write(connection, moved, plan, holder=None if release else lease.holder)


def _in_next_epoch(plan: AppendPlan) -> AppendPlan:
    return plan._replace(after=plan.after.replace(epoch=plan.before.epoch + 1))


@cache
def _claim_statement(claim: _Claim, from_: _From, *, with_state: bool, empty_inbox: bool) -> PreparedStatement:
    """Returns the statement that takes a session's lease, if the session is unchanged and, from "nobody", free."""
    claimed = update(sessions).where(is_unchanged()).values(epoch=_s.epoch + 1)
    if from_ == "nobody":
        claimed = claimed.where(_IS_OURS)
    if empty_inbox:
        claimed = claimed.where(_s.queued == 0)
    if claim == "begin":
        claimed = claimed.values(accepted=_s.accepted + 1)
    if claim == "begin oldest":
        claimed = claimed.where(_s.queued > 0).values(queued=_s.queued - 1)
    if claim not in {"take", "take and release"}:
        claimed = claimed.values(stop=None)
    taken = LEASE_RELEASED if claim == "take and release" else {"lease_holder": bindparam("holder")}
    return advance_statement(claimed.values(taken), with_state=with_state)


def _claim(
    connection: Connection, plan: AppendPlan, lease: Lease, claim: _Claim, from_: _From, *, empty_inbox: bool = False
) -> AdvancedRow | None:
    """Takes the lease and writes the new head, in one statement. None if another process has the session or changed it."""
    values = token_params(plan.before) | advanced_values(plan.after) | {"size": plan.size, "holder": lease.holder}
    statement = _claim_statement(claim, from_, with_state=bool(plan.delta.session), empty_inbox=empty_inbox)
    row = statement.row(connection, values)
    return AdvancedRow(*row) if row else None


def _insert_leased_session(connection: Connection, plan: AppendPlan, start: BeginRequest) -> AdvancedRow | None:
    """Stores a session that is not stored yet, with the lease. Returns None if its key is in use."""
    values = advanced_values(plan.after) | {"epoch": plan.after.epoch, "bytes": plan.size, "accepted": 1}
    values["lease_holder"] = start.lease.holder
    key = plan.before.key
    number = inbox.insert_session(connection, key, time_text(plan.before.created_at), **values)
    if number is None:
        return None
    return AdvancedRow(owner_of(key.app, key.user), number, 0, 1, None, None, "{}" if plan.delta.session else None)


def _mark_started(connection: Connection, session: AdvancedRow, start: BeginRequest) -> None:
    at = (session.owner, session.number, session.accepted)
    row = inbox.message_row(*at, start.message, start.now, start.started) | {"state": "started"}
    if inbox.insert_message(connection.dialect.name).row(connection, row) is None:
        raise _already_started(start)


def _begin_contended(connection: Connection, plan: AppendPlan, start: BeginRequest) -> Session | SessionBusy:
    """Begins after the first attempt failed: raises the reason, queues the message, or begins with it if it is next."""
    row = inbox.lock_session(connection, plan.before.key)
    if row is None:
        raise session_missing(plan.before.key)
    queued_row = inbox.find_message(connection, row, start.message.id)
    if queued_row is not None and queued_row.state != "queued":
        if (
            queued_row.state == "started"
            and queued_row.invocation_id == start.started.invocation_id
            and _was_applied(row, plan, start.lease)
        ):
            return _stored(connection, plan.after)
        raise _already_started(start)
    if _is_busy(connection, row, start):
        if queued_row is None and start.queue_limit is not None:
            inbox.check_revision(plan.before.key, row, start.revision)
            inbox.enqueue(connection, row, start.message, start.now, limit=start.queue_limit)
        return _busy(plan.before, queued=queued_row is not None or start.queue_limit is not None)
    moved = _claim(connection, plan, start.lease, "begin contended", "anybody")
    if moved is None:
        raise missing_or_stale(connection, plan.before.key)
    if queued_row is not None:
        inbox.start_queued(connection, moved, start.message, start.started)
        moved = replace(moved, queued=moved.queued - 1)
    else:
        _mark_started(connection, moved, start)
    return write(connection, moved, plan, holder=start.lease.holder)


def _was_applied(row: inbox.LockedSession, plan: AppendPlan, lease: Lease) -> bool:
    """Returns whether the stored session is exactly the result of this claim, so that the claim was already made."""
    expected = (plan.after.epoch, plan.after.revision, time_text(plan.before.created_at), lease.holder)
    return (row.epoch, row.revision, row.created_at, row.lease_holder) == expected


def _earlier_take(
    connection: Connection, row: inbox.LockedSession, plan: AppendPlan, lease: Lease, *, release: bool
) -> Session | None:
    """Returns the session if this `take` was already made. A `take` without events cannot be recognized."""
    ids = [event["event_id"] for event in plan.events]
    if not ids or stored_ids(connection, plan.before.key, ids) != frozenset(ids):
        return None
    if not release:
        return _stored(connection, plan.after) if _was_applied(row, plan, lease) else None
    if row.lease_holder == lease.holder:
        release_lease(connection, plan.after)
    is_taken = row.lease_holder not in {None, lease.holder}
    return _stored(connection, plan.before if is_taken else plan.after)


def _stored(connection: Connection, session: Session) -> Session:
    """Returns the stored session with the epoch of `session`: a lease that another process took since is not handed out."""
    stored = open_session(connection, session.key)
    assert stored is not None
    return stored.replace(epoch=session.epoch)


def _is_busy(connection: Connection, row: inbox.LockedSession, start: BeginRequest) -> bool:
    if _is_held_by_another(connection, row, start.lease):
        return True
    # The message in the inbox may be another one with the same id; a new one does not replace it.
    return row.queued > 0 and (start.new or inbox.oldest_id(connection, row) != start.message.id)


def _is_held_by_another(connection: Connection, row: inbox.LockedSession, lease: Lease) -> bool:
    """Returns whether another, living holder has the lease of a locked session."""
    # Read after the lock: the holder's heartbeat may be newer than the statement that waited for the lock.
    return row.lease_holder not in {None, lease.holder} and is_alive(connection, row.lease_holder)


def _busy(session: Session, *, queued: bool) -> SessionBusy:
    waits = "This one waits in its inbox." if queued else "Send it again later, or let busy sessions queue."
    return SessionBusy(f"Session {session.id!r} is answering another message, or others wait before this one.", fix=waits)


def _already_started(start: BeginRequest) -> StaleWriter:
    return StaleWriter(
        f"Message {start.message.id!r} was started or refused before; nothing was stored.",
        fix="Ask the inbox for its receipt; a new message needs a new id.",
    )


def check(connection: Connection, session: Session) -> None:
    if connection.execute(_HOLDS, _epoch_of(session) | {"holder": session.holder}).first() is None:
        raise StaleWriter(
            f"The lease of session {session.id!r} was lost: somebody else took it, or it was given up.",
            fix="Stop writing to it; what was appended stays.",
        )


def release_lease(connection: Connection, session: Session) -> None:
    connection.execute(_RELEASE, _epoch_of(session))


def _epoch_of(session: Session) -> dict[str, Any]:
    return session_params(session.key) | {"at_epoch": session.epoch, "at_created": time_text(session.created_at)}


class SqlLeases:
    """The store's leases."""

    def __init__(self, executor: Executor, heartbeats: Heartbeats) -> None:
        self._executor, self._heartbeats = executor, heartbeats

    async def check(self, session: Session) -> None:
        await self._executor.read(lambda connection: check(connection, session))

    async def leave(self, holder: str) -> None:
        await self._heartbeats.leave(holder)

    async def release(self, session: Session) -> None:
        await self._executor.write(lambda connection: release_lease(connection, session))

    async def deaths(self, holder: str) -> int:
        return self._heartbeats.deaths(holder)

    async def due(self, app: str, *, limit: int = 100) -> Sequence[SessionKey]:
        await self._heartbeats.settle()
        return await self._executor.read(lambda connection: due(connection, app, limit))

    async def expired(self, app: str, now: datetime, *, limit: int = 100) -> Sequence[SessionKey]:
        return await self._executor.read(lambda connection: expired(connection, app, time_text(now), limit))

    async def next_expiry(self, app: str, now: datetime) -> tuple[SessionKey, datetime] | None:
        return await self._executor.read(lambda connection: next_expiry(connection, app, time_text(now)))

    async def stop(self, key: SessionKey, invocation_id: str) -> None:
        await self._executor.write(lambda connection: request_stop(connection, key, invocation_id))

    async def stops(self, holder: str) -> Sequence[tuple[SessionKey, str]]:
        return await self._executor.read(lambda connection: stop_requests(connection, holder))

    async def introduce(self, lease: Lease, app: str, agents: Collection[str]) -> None:
        await self._heartbeats.introduce(lease, serves_text(app, agents))

    async def holders(self, app: str) -> Sequence[Holder]:
        return await self._executor.read(lambda connection: holders(connection, app))
