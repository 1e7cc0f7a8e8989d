"""Sessions: create, open, list and fork. A fork reads the events of the other log and writes its own."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from pydantic import JsonValue
from sqlalchemy import Connection, Select, bindparam, distinct, func, insert, select, tuple_

from turnwise.facts.errors import InvocationMissing, SessionExists
from turnwise.facts.sessions import Head, Session, SessionKey, fold, merge, split_state
from turnwise.ports.decisions import Page
from turnwise.ports.maintenance import Usage
from turnwise.ports.stores import SessionInfo
from turnwise.stores.sql.ids import check_limit, cursor, new_session_number, read_cursor
from turnwise.stores.sql.inbox import insert_session, lock_session
from turnwise.stores.sql.log import advanced_values, read_rows, read_spans, session_missing
from turnwise.stores.sql.memory_rows import memory_users
from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.stores.sql.rows import (
    HeadRow,
    blank_session,
    moment,
    read_shared,
    session_of,
    state_of,
    state_text,
    write_shared,
)
from turnwise.stores.sql.spans import FOREVER, Spans, fork_of, logs_of, spans_text, without
from turnwise.stores.sql.tables import is_session, live_holder, owner_of, session_params, sessions, shares, snapshots

_s = sessions.c

_COLUMNS = (_s[name] for name in HeadRow._fields if name != "holder")
_HEAD = PreparedStatement(select(*_COLUMNS, live_holder().label("holder")).where(is_session()))
_INITIAL_STATE = select(_s.initial_state).where(is_session())
_OF_USER = (_s.owner == bindparam("at_owner"), _s.app == bindparam("at_app"), _s.user_id == bindparam("at_user"))
_USAGE = select(func.count(), func.coalesce(func.sum(_s.bytes), 0)).where(*_OF_USER)
_FORKS = select(func.count(distinct(shares.c.session))).where(shares.c.owner == bindparam("at_owner"))
_MEMORY = select(memory_users.c.entries, memory_users.c.bytes).where(
    memory_users.c.owner == bindparam("at_owner"),
    memory_users.c.app == bindparam("at_app"),
    memory_users.c.user_id == bindparam("at_user"),
)


def create(connection: Connection, key: SessionKey, state: Mapping[str, JsonValue], now: str) -> Session:
    """Stores an empty session of revision 1. SessionExists."""
    scoped = split_state(state)
    own = state_text(merge({}, scoped.session))
    if insert_session(connection, key, now, state=own, initial_state=own) is None:
        raise session_exists(key)
    write_shared(connection, key.app, key.user, scoped)
    created = open_session(connection, key)
    assert created is not None
    return created


def session_exists(key: SessionKey) -> SessionExists:
    return SessionExists(
        f"User {key.user!r} of app {key.app!r} has a session {key.id!r} already.", fix="Open it, or choose another id."
    )


def head_row(connection: Connection, key: SessionKey) -> HeadRow | None:
    row = _HEAD.row(connection, session_params(key))
    return HeadRow(*row) if row else None


def initial_state(connection: Connection, key: SessionKey) -> dict[str, JsonValue] | None:
    """Returns the state that the session was created with; None if it was deleted since its row was read."""
    text = connection.execute(_INITIAL_STATE, session_params(key)).scalar()
    return None if text is None else state_of(text)


def open_session(connection: Connection, key: SessionKey, blank_at: datetime | None = None) -> Session | None:
    """Returns the session with its shared state. Without one: a blank session created at `blank_at`, or None without that
    time.
    """
    row = head_row(connection, key)
    if row is not None:
        return read_shared(connection, session_of(key, row))
    return read_shared(connection, blank_session(key, blank_at)) if blank_at else None


@cache
def _page(*, user: bool, after: bool) -> Select[Any]:
    """Returns the query for a page of sessions, by user and id."""
    found = select(_s.user_id, _s.session_id, _s.revision, _s.last_sequence, _s.created_at, _s.updated_at)
    found = found.where(_s.app == bindparam("at_app"))
    if user:
        found = found.where(_s.owner == bindparam("at_owner"), _s.user_id == bindparam("at_user"))
    if after:
        found = found.where(tuple_(_s.user_id, _s.session_id) > tuple_(bindparam("after_user"), bindparam("after_id")))
    return found.order_by(_s.user_id, _s.session_id).limit(bindparam("at_most"))


def list_sessions(connection: Connection, app: str, user: str | None, after: str | None, limit: int) -> Page[SessionInfo]:
    """Lists an app's sessions by user and id, a page at a time."""
    check_limit(limit)
    values: dict[str, Any] = {"at_app": app, "at_most": limit + 1}
    if user is not None:
        values |= {"at_user": user, "at_owner": owner_of(app, user)}
    if after is not None:
        values["after_user"], values["after_id"] = read_cursor("sessions", after, str, str)
    rows = connection.execute(_page(user=user is not None, after=after is not None), values).all()
    infos = tuple(
        SessionInfo(
            SessionKey(app, row.user_id, row.session_id),
            row.revision,
            row.last_sequence,
            moment(row.created_at),
            moment(row.updated_at),
        )
        for row in rows[:limit]
    )
    return Page(infos, cursor("sessions", infos[-1].key.user, infos[-1].key.id) if len(rows) > limit else None)


def usage(connection: Connection, app: str, user: str) -> Usage:
    """Returns how many sessions, forks, bytes and memory entries the user has."""
    at = {"at_owner": owner_of(app, user), "at_app": app, "at_user": user}
    count, size = connection.execute(_USAGE, at).one()
    forks = connection.execute(_FORKS, {"at_owner": at["at_owner"]}).scalar_one()
    memory = connection.execute(_MEMORY, at).first()
    entries, texts = memory or (0, 0)
    return Usage(count, forks, int(size) + texts, entries)


BATCH = 500

_n = snapshots.c
_INSERT_SHARE = insert(shares).inline()


class Origin(NamedTuple):
    """The session that is forked or folded."""

    number: int
    spans: Spans
    """The visible parts of its log."""
    session: Session
    """The session as it is."""
    empty: Session
    """The session before its first event."""

    @property
    def owner(self) -> int:
        return owner_of(self.session.app, self.session.user)


class Progress(NamedTuple):
    """The state of a fold in batches."""

    session: Session
    """The session so far."""
    reached: int = 0
    """The last sequence number read."""
    done: bool = False


def origin(connection: Connection, key: SessionKey) -> Origin:
    """Returns the session that is folded. SessionMissing."""
    row, found = head_row(connection, key), read_spans(connection, key)
    state = initial_state(connection, key)
    if row is None or found is None or state is None:
        raise session_missing(key)
    session = session_of(key, row)
    begun = session.replace(last_sequence=0, bytes=0, head=Head(), state=state, updated_at=session.created_at)
    return Origin(row.number, found[1], session, begun)


def first_of(connection: Connection, source: Origin, invocation_id: str) -> int:
    """Returns the sequence number of an invocation's first visible event. InvocationMissing."""
    found = read_rows(connection, source.owner, source.spans, at_most=1, invocation_id=invocation_id)
    if not found:
        raise InvocationMissing(
            f"Session {source.session.id!r} shows no event of invocation {invocation_id!r}.",
            fix="Read its events for the invocations it has; a rewind may have hidden this one.",
        )
    return found[0].sequence


@cache
def _newest_snapshot() -> PreparedStatement:
    of_span = (_n.owner == bindparam("at_owner"), _n.log == bindparam("at_log"))
    in_span = (_n.sequence >= bindparam("first"), _n.sequence <= bindparam("last"))
    found = select(_n.sequence, _n.updated_at, _n.head, _n.state).where(*of_span, *in_span)
    return PreparedStatement(found.order_by(_n.sequence.desc()).limit(1))


def start_fold(connection: Connection, source: Origin, spans: Spans, end: int) -> Progress:
    """Returns the fold at the newest snapshot of the spans below `end`; without one, the empty session."""
    for log, first, last, folded in reversed(without(spans, end, FOREVER)):
        if not folded:
            continue
        values = {"at_owner": source.owner, "at_log": log, "first": first, "last": last}
        row = _newest_snapshot().row(connection, values)
        if row is not None:
            sequence, updated_at, head, state = row
            at = {"last_sequence": sequence, "head": Head.model_validate_json(head), "state": state_of(state)}
            return Progress(source.empty.replace(**(at | {"updated_at": moment(updated_at)})), sequence)
    return Progress(source.empty)


def fold_more(connection: Connection, source: Origin, spans: Spans, end: int, progress: Progress) -> Progress:
    """Folds the next batch of the spans below `end`."""
    rows = read_rows(connection, source.owner, spans, after=progress.reached, before=end, at_most=BATCH)
    session = fold(progress.session, (row.event() for row in rows))
    reached = rows[-1].sequence if rows else progress.reached
    return Progress(session, reached, len(rows) < BATCH)


def excluded_numbers(connection: Connection, source: Origin, end: int, invocation_ids: Sequence[str]) -> list[int]:
    """Returns the numbers of the visible events of these invocations below `end`."""
    return [
        row.sequence
        for id_ in invocation_ids
        for row in read_rows(connection, source.owner, source.spans, before=end, invocation_id=id_)
    ]


class LogChanged(Exception):
    """The log was rewound or deleted since it was folded. Internal to the store, which folds again."""


class Fork(NamedTuple):
    """A fork to store."""

    key: SessionKey
    number: int
    spans: Spans
    """The visible parts of its log."""
    session: Session
    """The fold of what it inherits."""


def new_fork(source: Origin, new_id: str, end: int, excluded: Sequence[int], session: Session) -> Fork:
    """Returns a fork of what the source shows below `end`, without the excluded events. `session` is the fold of that."""
    key, number = SessionKey(source.session.app, source.session.user, new_id), new_session_number()
    return Fork(key, number, fork_of(source.spans, end, excluded, number), session)


def write_fork(connection: Connection, source: Origin, fork: Fork, now: str) -> Session:
    """Stores the fork. It shares the events with the source, so its cost does not depend on their number.

    Raises:
        SessionExists: The id is in use.
        LogChanged: The log was rewound or deleted since it was folded.
    """
    lock_session(connection, source.session.key)
    if read_spans(connection, source.session.key) != (source.number, source.spans):
        raise LogChanged
    values: dict[str, Any] = advanced_values(fork.session) | {"revision": 1, "updated_at": now}
    values |= {"state": state_text(fork.session.state), "initial_state": state_text(source.empty.state)}
    values |= {"spans": spans_text(fork.spans, fork.number), "number": fork.number}
    if insert_session(connection, fork.key, now, **values) is None:
        raise session_exists(fork.key)
    inherited = sorted(logs_of(fork.spans) - {fork.number})
    if inherited:
        shared = {"owner": source.owner, "session": fork.number}
        connection.execute(_INSERT_SHARE, [shared | {"log": log} for log in inherited])
    copy = open_session(connection, fork.key)
    assert copy is not None
    return copy
