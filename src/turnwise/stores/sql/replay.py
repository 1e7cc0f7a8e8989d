"""Folding a stored log anew, in steps, so that a long log neither fills the memory nor holds up other readers."""

from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, func, select

from turnwise.facts.errors import InvocationMissing
from turnwise.facts.sessions import Head, Session, SessionKey, fold
from turnwise.stores.sql.catalog import head_row, initial_state
from turnwise.stores.sql.log import missing
from turnwise.stores.sql.rows import event_of, session_of
from turnwise.stores.sql.tables import events

BATCH = 500

_e = events.c

_FIRST_OF = select(func.min(_e.sequence)).where(
    _e.session == bindparam("at_row"), _e.invocation_id == bindparam("invocation"), _e.hidden.is_(False)
)


class Origin(NamedTuple):
    """Where a fold begins: the row's id, the session as it is, and as it was before its first event."""

    row_id: int
    session: Session
    empty: Session


class Progress(NamedTuple):
    """How far a fold has come: the session so far, the last number read, and how many events were folded."""

    session: Session
    reached: int = 0
    folded: int = 0
    done: bool = False


class Span(NamedTuple):
    """Which visible events are folded: those below `end`. `copy` leaves out rewinds and the invocations `behind`, and
    numbers the rest anew, as a fork does.
    """

    row_id: int
    end: int
    copy: bool = False
    behind: frozenset[str] = frozenset()


def origin(connection: Connection, key: SessionKey) -> Origin:
    """SessionMissing."""
    row = head_row(connection, key)
    if row is None:
        raise missing(key)
    session = session_of(key, row)
    state = initial_state(connection, row.id)
    nothing = {"last_sequence": 0, "head": Head(), "state": state, "updated_at": session.created_at}
    return Origin(row.id, session, session.model_copy(update=nothing))


def first_of(connection: Connection, place: Origin, invocation_id: str) -> int:
    """The number of an invocation's first visible event. InvocationMissing."""
    found = connection.execute(_FIRST_OF, {"at_row": place.row_id, "invocation": invocation_id}).scalar()
    if found is None:
        raise InvocationMissing(
            f"Session {place.session.id!r} shows no event of invocation {invocation_id!r}.",
            fix="Read its events for the invocations it has; a rewind may have hidden this one.",
        )
    return int(found)


@cache
def visible(*, copy: bool, behind: bool) -> Select[Any]:
    """The visible events of a span in order."""
    found = select(_e.sequence, _e.body).where(
        _e.session == bindparam("at_row"), _e.sequence < bindparam("end"), _e.hidden.is_(False)
    )
    if copy:
        found = found.where(_e.rewind_from.is_(None))
    if behind:
        found = found.where(_e.invocation_id.not_in(bindparam("behind", expanding=True)))
    return found.order_by(_e.sequence)


def span_values(span: Span) -> dict[str, Any]:
    values: dict[str, Any] = {"at_row": span.row_id, "end": span.end}
    return values | {"behind": sorted(span.behind)} if span.behind else values


@cache
def _batch(*, copy: bool, behind: bool) -> Select[Any]:
    return visible(copy=copy, behind=behind).where(_e.sequence > bindparam("reached")).limit(BATCH)


def fold_more(connection: Connection, span: Span, progress: Progress) -> Progress:
    """Folds the next batch."""
    statement = _batch(copy=span.copy, behind=bool(span.behind))
    rows = connection.execute(statement, span_values(span) | {"reached": progress.reached}).all()
    first = progress.session.last_sequence + 1
    numbered = enumerate(rows, first) if span.copy else ((row.sequence, row) for row in rows)
    session = fold(progress.session, (event_of(number, row.body) for number, row in numbered))
    reached = rows[-1].sequence if rows else progress.reached
    return Progress(session, reached, progress.folded + len(rows), len(rows) < BATCH)
