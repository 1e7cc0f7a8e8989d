"""The visible parts of a session's log: ranges of events in its own log and, in a fork, in the logs of other sessions.

Also the states of invocations that a rewind hides: a few are cleared with the rewind, many afterwards, in short transactions.
Until then, lists of invocations leave them out by the visible parts of the session's log.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Boolean, ColumnElement, Connection, FromClause, bindparam, delete, exists, select, update
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from turnwise.stores.sql.rows import Removal, store_removals
from turnwise.stores.sql.tables import decisions, removals, sessions

FOREVER = 2**62
"""The end of an open span: all events from its first one on."""
READ_ACROSS = 64
"""A reader skips a gap of at most this many events instead of starting another query."""


class Span(NamedTuple):
    """The events of one log from `first` to `last`, both included. They have the same numbers in every session."""

    log: int
    """The number of the session that wrote them."""
    first: int
    last: int = FOREVER
    folded: bool = True
    """False if the log's snapshots do not fit, because a fork left out earlier events."""


Spans = tuple[Span, ...]
"""Spans in the order of their numbers, without overlap. The last one is open: the session appends to it."""


def whole(log: int) -> Spans:
    """Returns the spans of a session without rewinds that is not a fork."""
    return (Span(log, 1),)


def spans_text(spans: Spans, log: int) -> str | None:
    """Returns the spans as stored with the session `log`; None for its whole own log."""
    return None if spans == whole(log) else json.dumps(spans, separators=(",", ":"))


def spans_of(text: str | None, log: int) -> Spans:
    """Returns the spans that `spans_text` stored."""
    return whole(log) if text is None else tuple(Span(*span) for span in json.loads(text))


def without(spans: Spans, first: int, last: int) -> Spans:
    """Returns the spans without the numbers from `first` to `last`, both included. This is what a rewind hides."""
    if last < first:
        return spans
    parts: list[Span] = []
    for span in spans:
        if span.last < first or span.first > last:
            parts.append(span)
            continue
        if span.first < first:
            parts.append(span._replace(last=first - 1))
        if span.last > last:
            parts.append(span._replace(first=last + 1))
    return tuple(parts)


def fork_of(spans: Spans, end: int, excluded: Iterable[int], log: int) -> Spans:
    """Returns the spans of a fork.

    Args:
        spans: The visible parts of the forked session's log.
        end: The number of the first event that is not inherited.
        excluded: The numbers of events that are left out.
        log: The number of the fork.
    """
    inherited = without(spans, end, FOREVER)
    left_out = sorted(number for number in excluded if number < end)
    for number in left_out:
        inherited = without(inherited, number, number)
    if left_out:
        inherited = tuple(span._replace(folded=span.folded and span.last < left_out[0]) for span in inherited)
    # The fork's own events follow the last inherited one, also when the last events before `end` are left out.
    return (*inherited, Span(log, inherited[-1].last + 1 if inherited else 1))


def all_of(spans: Spans, log: int) -> Spans:
    """Returns the spans with what rewinds hid in the session's own log."""
    return (*(span for span in spans if span.log != log), Span(log, 1))


def gaps(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the numbers from 1 on that are in none of the ranges, as ranges. `ranges` are in order and may overlap."""
    found, start = list[tuple[int, int]](), 1
    for first, last in ranges:
        if first > start:
            found.append((start, first - 1))
        start = max(start, last + 1)
    return [*found, (start, FOREVER)] if start <= FOREVER else found


def logs_of(spans: Iterable[Span]) -> frozenset[int]:
    """Returns the numbers of the logs."""
    return frozenset(span.log for span in spans)


def log_at(spans: Spans, sequence: int) -> int | None:
    """Returns the log of the event with that number; None when no span has it."""
    return next((span.log for span in spans if span.first <= sequence <= span.last), None)


def is_visible(spans: Spans, log: int, sequence: int) -> bool:
    """Returns whether a span contains the event of that log."""
    return any(span.log == log and span.first <= sequence <= span.last for span in spans)


class Run(NamedTuple):
    """Neighbouring spans of one log that one query reads."""

    log: int
    first: int
    last: int
    hidden: tuple[tuple[int, int], ...] = ()
    """The gaps between the spans, as first and last numbers."""

    @property
    def hidden_count(self) -> int:
        return sum(last - first + 1 for first, last in self.hidden)

    def shows(self, sequence: int) -> bool:
        return not any(first <= sequence <= last for first, last in self.hidden)


def runs(spans: Spans, after: int, before: int) -> Sequence[Run]:
    """Returns the queries that read the spans between two numbers, in order; neither number is included."""
    joined: list[Run] = []
    for log, first, last, _ in spans:
        first, last = max(first, after + 1), min(last, before - 1)  # noqa: PLW2901
        if first > last:
            continue
        run = joined[-1] if joined else None
        if run is not None and run.log == log and first - run.last - 1 <= READ_ACROSS:
            gap = ((run.last + 1, first - 1),) if first > run.last + 1 else ()
            joined[-1] = run._replace(last=last, hidden=run.hidden + gap)
        else:
            joined.append(Run(log, first, last))
    return joined


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


class ClearedUpTo(NamedTuple):
    """How far the states of a session are cleared."""

    spans: str | None = None
    """The visible parts of the log. When they change, the work begins again."""
    after: int = 0
    """The last number in order whose state is cleared."""


def hide_states(connection: Connection, rewound: Removal, spans: Spans, first: int, last: int) -> None:
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


def pending_rewinds(connection: Connection) -> Sequence[Removal]:
    """Returns sessions in which states of hidden decisions are to be cleared."""
    return [_of_rewind(*row) for row in connection.execute(_PENDING)]


def _of_rewind(owner: int, session: int, app: str, user: str) -> Removal:
    # A deletion that finds this row decides about the labels itself.
    return Removal(owner, session, app, user, keeps_labels=True)


def clear_states(connection: Connection, rewound: Removal, position: ClearedUpTo) -> ClearedUpTo | None:
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
            return ClearedUpTo(row.spans, numbers[-1])
    if len(hidden) > STEP_RANGES:
        return ClearedUpTo(row.spans, hidden[STEP_RANGES - 1][1])
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
