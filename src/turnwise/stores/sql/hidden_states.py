"""The states of invocations that a rewind hides: a few are cleared with the rewind, many afterwards, in short transactions.

Until then, lists of invocations leave them out by the visible parts of the session's log.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Boolean, ColumnElement, Connection, FromClause, bindparam, delete, exists, select, update
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from turnwise.stores.sql.rows import Removal, store_removals
from turnwise.stores.sql.spans import Spans, gaps, runs, spans_of
from turnwise.stores.sql.tables import decisions, removals, sessions

CLEARED_AT_ONCE = 100
"""The number of decisions that a rewind clears itself at most."""
RANGES_AT_ONCE = 10
"""The number of ranges that a rewind clears itself at most."""
STEP_DECISIONS = 2_000
"""The number of decisions that one transaction clears at most."""
STEP_RANGES = 100
PENDING = 100

_d, _r, _s = decisions.c, removals.c, sessions.c

_IN_RANGE = (
    (_d.owner == bindparam("at_owner"))
    & (_d.session == bindparam("at_session"))
    & (_d.sequence >= bindparam("first"))
    & (_d.sequence <= bindparam("last"))
)
_FIRST = select(_d.sequence).where(_IN_RANGE).order_by(_d.sequence).limit(bindparam("at_most"))
_CLEAR = update(decisions).where(_IN_RANGE, _d.changed_at.is_not(None)).values(state=None, changed_at=None)
_IS_REMOVAL = (_r.owner == bindparam("at_owner")) & (_r.session == bindparam("at_session"))
_LOCK = select(_r.session).where(_IS_REMOVAL).with_for_update()
_DONE = delete(removals).where(_IS_REMOVAL)
_SPANS = select(_s.spans).where(_s.owner == bindparam("at_owner"), _s.number == bindparam("at_session"))
_PENDING = (
    select(_r.owner, _r.session, _r.app, _r.user_id)
    .join(sessions, (_s.owner == _r.owner) & (_s.number == _r.session))
    .order_by(_r.owner, _r.session)
    .limit(PENDING)
)


class Position(NamedTuple):
    """How far the states of a session are cleared."""

    spans: str | None = None
    """The visible parts of the log. When they change, the work begins again."""
    after: int = 0
    """The last number in order whose state is cleared."""


def hide(connection: Connection, rewound: Removal, spans: Spans, first: int, last: int) -> None:
    """Clears the states that a rewind hides; if they are many, stores that this is to be done.

    Args:
        connection: The transaction of the rewind.
        rewound: The session.
        spans: The visible parts of its log before the rewind.
        first: The first number that the rewind hides.
        last: The last one.
    """
    ranges = [(run.first, run.last) for run in runs(spans, first - 1, last + 1) if run.log == rewound.session]
    at, room = {"at_owner": rewound.owner, "at_session": rewound.session}, CLEARED_AT_ONCE
    for begin, end in ranges[:RANGES_AT_ONCE]:
        room -= _count(connection, at, begin, end, room + 1)
    if room < 0 or len(ranges) > RANGES_AT_ONCE:
        store_removals(connection, [rewound])
        return
    for begin, end in ranges:
        connection.execute(_CLEAR, at | {"first": begin, "last": end})


def _count(connection: Connection, at: dict[str, Any], first: int, last: int, at_most: int) -> int:
    """Returns the number of decisions in the range, counted up to `at_most`."""
    found = connection.execute(_FIRST, at | {"first": first, "last": last, "at_most": max(at_most, 0)})
    return len(found.all())


def pending(connection: Connection) -> Sequence[Removal]:
    """Returns sessions in which states of hidden decisions are to be cleared."""
    return [_of_rewind(*row) for row in connection.execute(_PENDING)]


def _of_rewind(owner: int, session: int, app: str, user: str) -> Removal:
    # A deletion that finds this row decides about the labels itself.
    return Removal(owner, session, app, user, keeps_labels=True)


def clear_some(connection: Connection, rewound: Removal, position: Position) -> Position | None:
    """Clears the next states that rewinds hide.

    Returns:
        Where the next step goes on; None at the end, or when the session was deleted meanwhile.
    """
    at = {"at_owner": rewound.owner, "at_session": rewound.session}
    locked = connection.execute(_LOCK, at).first()
    row = connection.execute(_SPANS, at).first()
    if locked is None or row is None:
        return None
    after = position.after if position.spans == row.spans else 0
    own = [(span.first, span.last) for span in spans_of(row.spans, rewound.session) if span.log == rewound.session]
    hidden = [(max(first, after + 1), last) for first, last in gaps(own) if last > after]
    room = STEP_DECISIONS
    for first, last in hidden[:STEP_RANGES]:
        values = at | {"first": first, "last": last, "at_most": room}
        numbers = connection.execute(_FIRST, values).scalars().all()
        if numbers:
            connection.execute(_CLEAR, values | {"last": numbers[-1]})
        room -= len(numbers)
        if room == 0:
            return Position(row.spans, numbers[-1])
    if len(hidden) > STEP_RANGES:
        return Position(row.spans, hidden[STEP_RANGES - 1][1])
    connection.execute(_DONE, at)
    return None


class shows(FunctionElement[bool]):
    """Whether stored spans show the event of a log with that number: `shows(spans, log, sequence)`."""

    type = Boolean()
    inherit_cache = True


@compiles(shows, "sqlite")
def _sqlite_shows(element: shows, compiler: Any, **options: Any) -> str:
    spans, log, sequence = (compiler.process(clause, **options) for clause in element.clauses)
    log_, first, last = (f"json_extract(span.value, '$[{place}]')" for place in range(3))
    found = f"SELECT 1 FROM json_each({spans}) AS span WHERE {log_} = {log} AND {sequence} BETWEEN {first} AND {last}"
    return f"EXISTS ({found})"


@compiles(shows, "postgresql")
def _postgresql_shows(element: shows, compiler: Any, **options: Any) -> str:
    spans, log, sequence = (compiler.process(clause, **options) for clause in element.clauses)
    log_, first, last = (f"CAST(span.value ->> {place} AS bigint)" for place in range(3))
    each = f"json_array_elements(CAST({spans} AS json)) AS span(value)"
    return f"EXISTS (SELECT 1 FROM {each} WHERE {log_} = {log} AND {sequence} BETWEEN {first} AND {last})"


def is_hidden(decided: FromClause = decisions) -> ColumnElement[bool]:
    """Returns the condition that a rewind hides the decision and that its state is not cleared yet.

    Args:
        decided: The table of the decisions, or an alias of it.
    """
    rewound, of = sessions.alias(), decided.c
    is_pending = (_r.owner == of.owner) & (_r.session == of.session)
    is_of = (rewound.c.owner == _r.owner) & (rewound.c.number == _r.session) & rewound.c.spans.is_not(None)
    return exists().where(is_pending, is_of, ~shows(rewound.c.spans, rewound.c.number, of.sequence)).correlate(decided)
