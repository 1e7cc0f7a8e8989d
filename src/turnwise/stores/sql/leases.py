"""One writer per session: taking the lease with a message, keeping it, giving it up. Its time is the database's."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, or_, update

from turnwise.facts.errors import SessionBusy, StaleWriter
from turnwise.facts.events import USER, Event
from turnwise.facts.messages import Message
from turnwise.facts.sessions import Session
from turnwise.ports.stores import Lease
from turnwise.stores.sql import inbox
from turnwise.stores.sql.draft import Draft
from turnwise.stores.sql.hot import Hot
from turnwise.stores.sql.log import ADVANCED, advanced, missing, missing_or_stale, token, unchanged, write
from turnwise.stores.sql.rows import AnyRow, time_text
from turnwise.stores.sql.tables import at, clock, insert_for, is_session, messages, named, sessions

_s = sessions.c

_IS_FREE = or_(_s.lease_holder.is_(None), _s.lease_holder == bindparam("holder"), _s.lease_until <= clock())
_SAME_EPOCH = is_session() & (_s.epoch == bindparam("at_epoch")) & (_s.created_at == bindparam("at_created"))
_UNTIL = clock() + bindparam("seconds")
_RENEW = update(sessions).where(_SAME_EPOCH, _s.lease_holder == bindparam("holder")).values(lease_until=_UNTIL)
_RELEASE = update(sessions).where(_SAME_EPOCH).values(lease_holder=None, lease_until=None)


class Start(NamedTuple):
    """What `begin` was asked for."""

    lease: Lease
    message: Message
    invocation_id: str | None
    queue_limit: int | None
    now: str


def invocation_of(events: Sequence[Event]) -> str | None:
    """Which invocation a message starts: its user event's. Events that end older invocations may stand before that one."""
    by_user = (event.invocation_id for event in events if event.author == USER)
    return next(by_user, events[0].invocation_id if events else None)


def begin(connection: Connection, draft: Draft, start: Start) -> Session | SessionBusy:
    """Takes the lease and writes the draft. Gives SessionBusy rather than raising it: the inbox is to be committed."""
    epoch = draft.before.epoch + 1
    draft = draft._replace(after=draft.after.model_copy(update={"epoch": epoch, "held": True}))
    if draft.before.revision == 0:
        row_id, state = _store_blank(connection, draft, start)
    else:
        row_id, state = _take(connection, draft, start, among_waiting=False)
    if row_id is None:
        return _begin_among_others(connection, draft, start)
    _mark_started(connection, row_id, start)
    return write(connection, row_id, draft, state)


@cache
def _take_statement(*, among_waiting: bool, with_state: bool) -> Hot:
    taken = update(sessions).where(unchanged(), _IS_FREE)
    if not among_waiting:
        taken = taken.where(_s.queued == 0)
    advancing: dict[str, Any] = {name: bindparam(name) for name in ADVANCED}
    taken = taken.values(**advancing, epoch=_s.epoch + 1, lease_holder=bindparam("holder"), lease_until=_UNTIL)
    return Hot(taken.returning(_s.id, _s.state) if with_state else taken.returning(_s.id))


def _take(connection: Connection, draft: Draft, start: Start, *, among_waiting: bool) -> tuple[int | None, str | None]:
    with_state = bool(draft.delta.session)
    values = token(draft.before) | advanced(draft.after) | {"holder": start.lease.holder, "seconds": start.lease.seconds}
    row = _take_statement(among_waiting=among_waiting, with_state=with_state).row(connection, values)
    if row is None:
        return None, None
    return row[0], row[1] if with_state else None


def _store_blank(connection: Connection, draft: Draft, start: Start) -> tuple[int | None, str | None]:
    values = advanced(draft.after) | {"epoch": draft.after.epoch}
    values |= {"lease_holder": start.lease.holder, "seconds": start.lease.seconds}
    row_id = inbox.insert_session(connection, draft.before.key, time_text(draft.before.created_at), **values)
    return row_id, "{}" if draft.delta.session else None


@cache
def _insert_started(dialect: str) -> Hot:
    inserted = insert_for(dialect, messages).values(named(messages, "id"))
    return Hot(inserted.on_conflict_do_nothing(index_elements=["session", "message_id"]).returning(messages.c.id))


def _mark_started(connection: Connection, row_id: int, start: Start) -> None:
    row = inbox.message_row(row_id, start.message, start.now, "started", start.invocation_id)
    if _insert_started(connection.dialect.name).row(connection, row) is None:
        raise _done_before(start)


def _begin_among_others(connection: Connection, draft: Draft, start: Start) -> Session | SessionBusy:
    """`begin` when it did not just succeed: says why, puts the message in the inbox, or begins with it if it is its turn."""
    row = inbox.lock(connection, draft.before.key)
    if row is None:
        raise missing(draft.before.key)
    known = inbox.find(connection, row.id, start.message.id)
    if known is not None and known.state != "queued":
        raise _done_before(start)
    if _is_busy(connection, row, start):
        if known is None and start.queue_limit is not None:
            inbox.enqueue(connection, row, start.message, start.now, limit=start.queue_limit)
        return _busy(draft.before, queued=known is not None or start.queue_limit is not None)
    row_id, state = _take(connection, draft, start, among_waiting=True)
    if row_id is None:
        raise missing_or_stale(connection, draft.before.key)
    if known is not None:
        inbox.start_queued(connection, row_id, start.message, start.invocation_id)
    else:
        _mark_started(connection, row_id, start)
    return write(connection, row_id, draft, state)


def _is_busy(connection: Connection, row: AnyRow, start: Start) -> bool:
    if row.held and row.lease_holder != start.lease.holder:
        return True
    return row.queued > 0 and inbox.oldest_id(connection, row.id) != start.message.id


def _busy(session: Session, *, queued: bool) -> SessionBusy:
    waits = "This one waits in its inbox." if queued else "Send it again later, or let busy sessions queue."
    return SessionBusy(f"Session {session.id!r} is answering another message, or others wait before this one.", fix=waits)


def _done_before(start: Start) -> StaleWriter:
    return StaleWriter(
        f"Message {start.message.id!r} was started or refused before; nothing was stored.",
        fix="Ask the inbox for its receipt; a new message needs a new id.",
    )


def renew(connection: Connection, session: Session, lease: Lease) -> None:
    if connection.execute(_RENEW, _claim(session) | {"holder": lease.holder, "seconds": lease.seconds}).rowcount == 0:
        raise StaleWriter(
            f"The lease of session {session.id!r} was lost: somebody else took it, or it was given up.",
            fix="Stop writing to it; what was appended stays.",
        )


def release(connection: Connection, session: Session) -> None:
    connection.execute(_RELEASE, _claim(session))


def _claim(session: Session) -> dict[str, Any]:
    return at(session.key) | {"at_epoch": session.epoch, "at_created": time_text(session.created_at)}
