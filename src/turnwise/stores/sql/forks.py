"""Folds a part of a log, and forks a session: the fork reads the events of the other log and writes its own."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, insert, select

from turnwise.facts.errors import InvocationMissing
from turnwise.facts.sessions import Head, Session, SessionKey, fold
from turnwise.stores.sql.catalog import head_row, initial_state, open_session, session_exists
from turnwise.stores.sql.ids import new_session_number
from turnwise.stores.sql.inbox import insert_session, lock_session
from turnwise.stores.sql.log import advanced_values, read_rows, read_spans, session_missing
from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.stores.sql.rows import moment, session_of, state_of, state_text
from turnwise.stores.sql.spans import FOREVER, Spans, fork_of, logs_of, spans_text, without
from turnwise.stores.sql.tables import owner_of, shares, snapshots

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
