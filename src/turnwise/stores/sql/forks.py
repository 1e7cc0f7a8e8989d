"""Forks: copies the visible log, or its beginning, to a new session without loading it into Python."""

from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Insert, Select, bindparam, func, insert, literal, select

from turnwise.facts.errors import InvocationMissing
from turnwise.facts.sessions import Head, Session, SessionKey, fold
from turnwise.stores.sql.catalog import head_row, initial_state, open_session, session_exists
from turnwise.stores.sql.inbox import insert_session
from turnwise.stores.sql.log import advanced_values, session_missing
from turnwise.stores.sql.rows import event_of, session_of, state_text
from turnwise.stores.sql.tables import decisions, events

BATCH = 500

_replayed = events.c

_FIRST_OF = select(func.min(_replayed.sequence)).where(
    _replayed.session == bindparam("at_row"), _replayed.invocation_id == bindparam("invocation"), _replayed.hidden.is_(False)
)


class Origin(NamedTuple):
    """The session that is forked or folded."""

    row_id: int
    session: Session
    """The session as it is."""
    empty: Session
    """The session before its first event."""


class Progress(NamedTuple):
    """The state of a fold in batches."""

    session: Session
    """The session so far."""
    reached: int = 0
    """The last sequence number read."""
    folded: int = 0
    """How many events were folded."""
    done: bool = False


class Span(NamedTuple):
    """The visible events to fold."""

    row_id: int
    end: int
    """The first sequence number that is not part of it."""
    copy: bool = False
    """Leave out rewinds and renumber the events, as a fork does."""
    excluded: frozenset[str] = frozenset()
    """Invocations that are left out."""


def origin(connection: Connection, key: SessionKey) -> Origin:
    """Returns the session that is folded. SessionMissing."""
    row = head_row(connection, key)
    state = None if row is None else initial_state(connection, row.id)
    if row is None or state is None:
        raise session_missing(key)
    session = session_of(key, row)
    begun = session.replace(last_sequence=0, head=Head(), state=state, updated_at=session.created_at)
    return Origin(row.id, session, begun)


def first_of(connection: Connection, source: Origin, invocation_id: str) -> int:
    """Returns the sequence number of an invocation's first visible event. InvocationMissing."""
    found = connection.execute(_FIRST_OF, {"at_row": source.row_id, "invocation": invocation_id}).scalar()
    if found is None:
        raise InvocationMissing(
            f"Session {source.session.id!r} shows no event of invocation {invocation_id!r}.",
            fix="Read its events for the invocations it has; a rewind may have hidden this one.",
        )
    return int(found)


@cache
def visible(*, copy: bool, excluded: bool) -> Select[Any]:
    """Returns the query of a span's visible events, in order."""
    found = select(_replayed.sequence, _replayed.body).where(
        _replayed.session == bindparam("at_row"), _replayed.sequence < bindparam("end"), _replayed.hidden.is_(False)
    )
    if copy:
        found = found.where(_replayed.rewind_from.is_(None))
    if excluded:
        found = found.where(_replayed.invocation_id.not_in(bindparam("excluded", expanding=True)))
    return found.order_by(_replayed.sequence)


def span_values(span: Span) -> dict[str, Any]:
    values: dict[str, Any] = {"at_row": span.row_id, "end": span.end}
    return values | {"excluded": sorted(span.excluded)} if span.excluded else values


@cache
def _batch(*, copy: bool, excluded: bool) -> Select[Any]:
    return visible(copy=copy, excluded=excluded).where(_replayed.sequence > bindparam("reached")).limit(BATCH)


def fold_more(connection: Connection, span: Span, progress: Progress) -> Progress:
    """Folds the next batch."""
    statement = _batch(copy=span.copy, excluded=bool(span.excluded))
    rows = connection.execute(statement, span_values(span) | {"reached": progress.reached}).all()
    first = progress.session.last_sequence + 1
    numbered = enumerate(rows, first) if span.copy else ((row.sequence, row) for row in rows)
    session = fold(progress.session, (event_of(number, row.body) for number, row in numbered))
    reached = rows[-1].sequence if rows else progress.reached
    return Progress(session, reached, progress.folded + len(rows), len(rows) < BATCH)


_e, _d = events.c, decisions.c


class LogChanged(Exception):
    """The log was rewound since it was folded. Internal to the store, which folds again."""


@cache
def _copy_events(*, excluded: bool) -> Insert:
    numbered = func.row_number().over(order_by=_e.sequence)
    copied_rows = visible(copy=True, excluded=excluded).with_only_columns(
        bindparam("new_row", type_=_e.session.type), numbered, _e.event_id, _e.invocation_id, _e.author, literal(False), _e.body
    )
    columns = ["session", "sequence", "event_id", "invocation_id", "author", "hidden", "body"]
    # PostgreSQL's dialect drops the row count of an INSERT without this option.
    return insert(events).inline().from_select(columns, copied_rows).execution_options(preserve_rowcount=True)


def _copy_decisions() -> Insert:
    # The event has the same id in both logs and another number. The state of an invocation stays with the original session.
    old, new = events.alias("old"), events.alias("new")
    same = old.join(new, new.c.event_id == old.c.event_id)
    copied = [column for column in _d if column.name not in {"id", "session", "sequence", "state", "changed_at"}]
    rows = (
        select(new.c.session, new.c.sequence, *copied)
        .select_from(decisions.join(same, (old.c.session == _d.session) & (old.c.sequence == _d.sequence)))
        .where(_d.session == bindparam("at_row"), new.c.session == bindparam("new_row"))
        .order_by(new.c.sequence)
    )
    return insert(decisions).inline().from_select(["session", "sequence", *(column.name for column in copied)], rows)


_COPY_DECISIONS = _copy_decisions()


def write_fork(connection: Connection, new: SessionKey, *, source: Origin, span: Span, progress: Progress, now: str) -> Session:
    """Stores the copy. SessionExists; LogChanged when the log was rewound since it was folded."""
    values: dict[str, Any] = advanced_values(progress.session) | {"revision": 1, "updated_at": now}
    state, initial = state_text(progress.session.state), state_text(source.empty.state)
    row_id = insert_session(connection, new, now, **values, state=state, initial_state=initial)
    if row_id is None:
        raise session_exists(new)
    copied = connection.execute(_copy_events(excluded=bool(span.excluded)), span_values(span) | {"new_row": row_id}).rowcount
    if copied != progress.folded:
        raise LogChanged
    connection.execute(_COPY_DECISIONS, {"at_row": span.row_id, "new_row": row_id})
    copy = open_session(connection, new)
    assert copy is not None
    return copy
