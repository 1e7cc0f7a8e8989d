"""The event log: reads events, and writes an append plan."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Update, bindparam, exists, insert, select, update

from turnwise.facts.errors import SessionMissing, StaleWriter
from turnwise.facts.events import Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Session, SessionKey, merge
from turnwise.stores.sql import jobs, memory_writes
from turnwise.stores.sql.append_plan import AppendPlan, MemoryPlan
from turnwise.stores.sql.errors import Duplicate
from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.stores.sql.rows import (
    DECISION_COLUMNS,
    EventRow,
    Removal,
    selection_of,
    state_of,
    state_text,
    stored_size,
    time_text,
    write_shared,
)
from turnwise.stores.sql.spans import FOREVER, Run, Spans, all_of, hide_states, is_visible, logs_of, runs, spans_of, spans_text
from turnwise.stores.sql.tables import (
    LEASE_RELEASED,
    column_params,
    decisions,
    events,
    is_session,
    owner_of,
    session_params,
    sessions,
    snapshots,
)
from turnwise.stores.sql.transcript_events import transcript_events

_s, _e, _d = sessions.c, events.c, decisions.c

session_number = select(_s.number).where(is_session()).scalar_subquery()
"""Subquery for the number of the session of `session_params`."""

_INSERT_EVENTS = PreparedStatement(insert(events).values(column_params(events)).inline())
_INSERT_DECISIONS = PreparedStatement(insert(decisions).values(column_params(decisions)).inline())
_SET_INVOCATION_STATE = PreparedStatement(
    update(decisions)
    .where(_d.owner == bindparam("at_owner"), _d.session == bindparam("at_session"), _d.sequence == bindparam("at_sequence"))
    .values(state=bindparam("state"), changed_at=bindparam("changed_at"))
)
_IS_ROW = (_s.owner == bindparam("at_owner")) & (_s.number == bindparam("at_session"))
_SET_STATE = PreparedStatement(update(sessions).where(_IS_ROW).values(state=bindparam("state")).returning(_s.number))
_SET_SPANS = update(sessions).where(_IS_ROW).values(spans=bindparam("spans"))
_INSERT_SNAPSHOT = PreparedStatement(insert(snapshots).values(column_params(snapshots)).inline())
_SPANS = PreparedStatement(select(_s.number, _s.spans).where(is_session()))
_KNOWN = select(_e.event_id, _e.sequence).where(
    _e.owner == bindparam("at_owner"), _e.log == bindparam("at_log"), _e.event_id.in_(bindparam("ids", expanding=True))
)
SNAPSHOT_EVENTS = 50
"""A snapshot is written about every so many events, more rarely for a large state."""
SNAPSHOT_BYTES = 2_000
_RECORDS = select(_d.sequence, *(_d[name] for name in DECISION_COLUMNS)).where(
    _d.owner == bindparam("at_owner"),
    _d.session == bindparam("at_log"),
    _d.sequence >= bindparam("first"),
    _d.sequence <= bindparam("last"),
)
_EXISTS = select(exists().where(is_session()))


def is_unchanged() -> ColumnElement[bool]:
    """Returns the condition that the stored session is the one of `token_params`."""
    # The creation time distinguishes a session from a later one with the same id.
    return (
        is_session()
        & (_s.epoch == bindparam("at_epoch"))
        & (_s.revision == bindparam("at_revision"))
        & (_s.created_at == bindparam("at_created"))
    )


def token_params(session: Session) -> dict[str, Any]:
    params = {"at_epoch": session.epoch, "at_revision": session.revision, "at_created": time_text(session.created_at)}
    return session_params(session.key) | params


ADVANCED = ("revision", "last_sequence", "updated_at", "head", "expires_at")
"""The columns that every append sets."""


def advanced_values(after: Session) -> dict[str, Any]:
    """Returns the session's column values after an append."""
    expires_at = after.head.expires_at if after.head.invocations else None
    return {
        "revision": after.revision,
        "last_sequence": after.last_sequence,
        "updated_at": time_text(after.updated_at),
        "head": after.head.model_dump_json(),
        "expires_at": None if expires_at is None else time_text(expires_at),
    }


@dataclass(frozen=True, slots=True)
class AdvancedRow:
    """The columns of a session's row that an update returns."""

    owner: int
    number: int
    queued: int
    accepted: int
    stop: str | None
    spans: str | None
    state: str | None = None
    """The state before the update; None unless the plan changes it."""


def advance_statement(statement: Update, *, with_state: bool) -> PreparedStatement:
    """Returns a statement that sets the columns `ADVANCED` and returns an `AdvancedRow`.

    Accepting a message locks the row. The count `queued` thus includes every message accepted before this transaction commits.
    """
    updated = statement.values({name: bindparam(name) for name in ADVANCED} | {"bytes": _s.bytes + bindparam("size")})
    columns = (_s.owner, _s.number, _s.queued, _s.accepted, _s.stop, _s.spans)
    return PreparedStatement(updated.returning(*columns, *([_s.state] if with_state else [])))


@cache
def _advance(*, release: bool, with_state: bool) -> PreparedStatement:
    updated = update(sessions).where(is_unchanged())
    return advance_statement(updated.values(LEASE_RELEASED) if release else updated, with_state=with_state)


def append(connection: Connection, plan: AppendPlan, *, release: bool) -> Session:
    """Writes an append plan.

    Raises:
        SessionMissing: The session does not exist.
        StaleWriter: The session changed since the plan was made.
    """
    values = token_params(plan.before) | advanced_values(plan.after) | {"size": plan.size}
    row = _advance(release=release, with_state=bool(plan.delta.session)).row(connection, values)
    if row is None:
        raise missing_or_stale(connection, plan.before.key)
    return write(connection, AdvancedRow(*row), plan, holder=None if release else plan.before.holder)


def write(connection: Connection, row: AdvancedRow, plan: AppendPlan, *, holder: str | None) -> Session:
    """Writes everything of a plan but the session's row, which is already updated. Returns the session as it is now.

    Raises:
        Duplicate: The session shows one of the events already.
    """
    _check_inherited(connection, row, plan)
    at = {"owner": row.owner, "session": row.number}
    if plan.spans is not None:
        _hide(connection, row, plan)
    if plan.events:
        _INSERT_EVENTS.run_many(connection, [event | {"owner": row.owner, "log": row.number} for event in plan.events])
    if plan.decisions:
        _INSERT_DECISIONS.run_many(connection, [decision | at for decision in plan.decisions])
    if plan.state_changes:
        _SET_INVOCATION_STATE.run_many(connection, [change | _at(row) for change in plan.state_changes])
    if plan.jobs:
        jobs.insert_jobs(connection, [job | at for job in plan.jobs])
    if plan.memory is not None:
        _write_memory(connection, row, plan, plan.memory)
    if plan.delta.app or plan.delta.user:
        write_shared(connection, plan.before.app, plan.before.user, plan.delta)
    update: dict[str, Any] = {"holder": holder, "queued": row.queued, "stop": row.stop}
    session = plan.after.replace_valid(**(update | _write_state(connection, row, plan)))
    _write_snapshot(connection, row, plan.before.last_sequence, session)
    return session


def _check_inherited(connection: Connection, row: AdvancedRow, plan: AppendPlan) -> None:
    """Raises Duplicate for an event that a fork inherited. An index only knows the events of its own log."""
    if row.spans is None or not plan.events:
        return
    spans, ids = spans_of(row.spans, row.number), [event["event_id"] for event in plan.events]
    if _known_events(connection, row.owner, spans, logs_of(spans) - {row.number}, ids):
        raise Duplicate("inherited")


def _at(row: AdvancedRow) -> dict[str, Any]:
    return {"at_owner": row.owner, "at_session": row.number}


def _hide(connection: Connection, row: AdvancedRow, plan: AppendPlan) -> None:
    """Carries out an append's rewind: new spans, and the states, jobs and memory entries of hidden events."""
    assert plan.spans is not None
    connection.execute(_SET_SPANS, _at(row) | {"spans": spans_text(plan.spans, row.number)})
    if plan.hide_from is not None:
        before, last = spans_of(row.spans, row.number), plan.before.last_sequence
        rewound = Removal(row.owner, row.number, plan.before.app, plan.before.user, keeps_labels=True)
        hide_states(connection, rewound, before, plan.hide_from, last)
        jobs.delete_hidden(connection, row.owner, row.number, plan.hide_from)
        memory_writes.hide(connection, row.owner, row.number, plan.hide_from, last + 1)


def _write_memory(connection: Connection, row: AdvancedRow, plan: AppendPlan, memory: MemoryPlan) -> None:
    """Stores the entries that the events remember, and notes which entries they hold the texts of."""
    if memory.remembered:
        id_ = plan.before.id
        new = [
            memory_writes.NewEntry(entry, id_, row.number if entry.session is not None else None, row.number, sequence)
            for entry, sequence in memory.remembered
        ]
        memory_writes.remember(connection, plan.before.app, plan.before.user, new, strict=False)
    if memory.recalled:
        memory_writes.note_recalls(connection, row.owner, row.number, memory.recalled)


def _write_state(connection: Connection, row: AdvancedRow, plan: AppendPlan) -> dict[str, Any]:
    """Writes the session's state and returns the fields that differ from the plan's session."""
    if plan.hide_from is not None:
        state = plan.after.state
    elif row.state is None:
        return {}
    else:
        # Merged into the stored state: the caller may have changed the dictionaries of its session object.
        state = merge(state_of(row.state), plan.delta.session)
    _SET_STATE.rows(connection, _at(row) | {"state": state_text(state)})
    return {"state": state}


def _write_snapshot(connection: Connection, row: AdvancedRow, before: int, session: Session) -> None:
    """Writes a snapshot when the append passed a multiple of the interval. Snapshots take a small part of the log's size."""
    if session.last_sequence // SNAPSHOT_EVENTS == before // SNAPSHOT_EVENTS:
        return
    head, state = session.head.model_dump_json(), state_text(session.state)
    interval = SNAPSHOT_EVENTS * (1 + (len(head) + len(state)) // SNAPSHOT_BYTES)
    if session.last_sequence // interval != before // interval:
        snapshot = {"owner": row.owner, "log": row.number, "sequence": session.last_sequence, "head": head, "state": state}
        _INSERT_SNAPSHOT.run_many(connection, [snapshot | {"updated_at": time_text(session.updated_at)}])


def missing_or_stale(connection: Connection, key: SessionKey) -> SessionMissing | StaleWriter:
    if not connection.execute(_EXISTS, session_params(key)).scalar():
        return session_missing(key)
    return stale(key)


def stale(key: SessionKey) -> StaleWriter:
    return StaleWriter(
        f"Session {key.id!r} was written by somebody else since it was read; nothing of this call was stored.",
        fix="Open it again and decide anew.",
    )


def session_missing(key: SessionKey) -> SessionMissing:
    return SessionMissing(
        f"User {key.user!r} of app {key.app!r} has no session {key.id!r}.", fix="Create it, or check the three names."
    )


def stored_ids(connection: Connection, key: SessionKey, ids: Sequence[str]) -> frozenset[str]:
    """Returns which of these events the session already has, in its own log or visibly in an inherited one."""
    found = read_spans(connection, key)
    if found is None:
        return frozenset()
    number, spans = found
    owner = owner_of(key.app, key.user)
    own = connection.execute(_KNOWN, {"at_owner": owner, "at_log": number, "ids": list(ids)})
    inherited = _known_events(connection, owner, spans, logs_of(spans) - {number}, ids)
    return inherited | {row.event_id for row in own}


def _known_events(connection: Connection, owner: int, spans: Spans, logs: Iterable[int], ids: Sequence[str]) -> frozenset[str]:
    """Returns which of these events the spans show of the given logs."""
    found = set[str]()
    for log in logs:
        rows = connection.execute(_KNOWN, {"at_owner": owner, "at_log": log, "ids": list(ids)})
        found.update(row.event_id for row in rows if is_visible(spans, log, row.sequence))
    return frozenset(found)


def read_spans(connection: Connection, key: SessionKey) -> tuple[int, Spans] | None:
    """Returns the number of a session and the visible parts of its log; None for a missing session."""
    row = _SPANS.row(connection, session_params(key))
    return (row[0], spans_of(row[1], row[0])) if row is not None else None


@cache
def events_between(*, newest: bool, invocation: bool) -> PreparedStatement:
    """Returns the query of one log's events from the number `first` to `last`, oldest or newest first."""
    found = select(*(_e[name] for name in EventRow._fields)).where(
        _e.owner == bindparam("at_owner"),
        _e.log == bindparam("at_log"),
        _e.sequence >= bindparam("first"),
        _e.sequence <= bindparam("last"),
    )
    if invocation:
        found = found.where(_e.invocation_id == bindparam("invocation"))
    order = _e.sequence.desc() if newest else _e.sequence
    return PreparedStatement(found.order_by(order).limit(bindparam("at_most")))


@cache
def _sizes_between(*, newest: bool, invocation: bool) -> PreparedStatement:
    """Returns the query of the numbers and sizes of the events of `events_between`."""
    found = select(_e.sequence, stored_size(_e.body)).where(
        _e.owner == bindparam("at_owner"),
        _e.log == bindparam("at_log"),
        _e.sequence >= bindparam("first"),
        _e.sequence <= bindparam("last"),
    )
    if invocation:
        found = found.where(_e.invocation_id == bindparam("invocation"))
    order = _e.sequence.desc() if newest else _e.sequence
    return PreparedStatement(found.order_by(order).limit(bindparam("at_most")))


class Window(NamedTuple):
    """The events to read; the parameters of `SessionStore.events`."""

    after: int
    before: int | None
    last: int | None
    limit: int | None
    invocation_id: str | None
    hidden: bool
    transcript: bool
    max_bytes: int | None = None


def read_events(connection: Connection, key: SessionKey, window: Window) -> list[Event]:
    """Reads a window of the session's events, those that forks inherited included."""
    found = read_spans(connection, key)
    if found is None:
        return []
    number, spans = found
    newest = window.last is not None
    at_most = window.last if newest else window.limit
    rows = read_rows(
        connection,
        owner_of(key.app, key.user),
        all_of(spans, number) if window.hidden else spans,
        after=window.after,
        before=FOREVER if window.before is None else window.before,
        at_most=FOREVER if at_most is None else at_most,
        newest=newest,
        invocation_id=window.invocation_id,
        max_bytes=window.max_bytes,
    )
    if newest:
        rows = rows[::-1][: window.limit]
    if window.transcript:
        return transcript_events(rows)
    records = _records(connection, key, spans, number, rows)
    return [row.event(records.get(row.sequence)) for row in rows]


def read_rows(
    connection: Connection,
    owner: int,
    spans: Spans,
    *,
    after: int = 0,
    before: int = FOREVER,
    at_most: int = FOREVER,
    newest: bool = False,
    invocation_id: str | None = None,
    max_bytes: int | None = None,
) -> list[EventRow]:
    """Returns the events of the spans between two numbers, at most `at_most`, oldest or newest first.

    With `max_bytes`, stops before the event that would exceed this size, but after the first one at the earliest.
    """
    statement = events_between(newest=newest, invocation=invocation_id is not None)
    rows: list[EventRow] = []
    room = max_bytes
    queries = runs(spans, after, before)
    for run in reversed(queries) if newest else queries:
        missing = at_most - len(rows)
        if missing <= 0:
            break
        values: dict[str, Any] = {"at_owner": owner, "at_log": run.log, "first": run.first, "last": run.last}
        values["at_most"] = min(missing + run.hidden_count, FOREVER)
        if invocation_id is not None:
            values["invocation"] = invocation_id
        if room is not None:
            fitting, room = _fitting(connection, run, values, room, newest=newest, first=not rows)
            if fitting == 0:
                break
            values["at_most"] = min(values["at_most"], fitting)
        read = (EventRow(*row) for row in statement.rows(connection, values))
        shown = [row for row in read if run.shows(row.sequence)] if run.hidden else list(read)
        rows += shown[:missing]
        if room is not None and room < 0:
            break
    return rows


def _fitting(
    connection: Connection, run: Run, values: dict[str, Any], room: int, *, newest: bool, first: bool
) -> tuple[int, int]:
    """Returns how many of a query's rows fit into `room` bytes, and the room that is left: negative when a row did not fit.

    Hidden rows take no room. The first visible row always fits if `first` is set. Reads no bodies.
    """
    sizes = _sizes_between(newest=newest, invocation="invocation" in values).rows(connection, values)
    count = 0
    for sequence, size in sizes:
        if run.shows(sequence):
            if size > room and not first:
                return count, -1
            room, first = max(room - size, 0), False
        count += 1
    return count or 1, room


def _records(
    connection: Connection, key: SessionKey, spans: Spans, number: int, rows: Sequence[EventRow]
) -> dict[int, Selection]:
    """Returns the whole selections of events, by sequence number. A decision that was deleted is missing."""
    deciding = [row.sequence for row in rows if row.decides]
    records: dict[int, Selection] = {}
    if not deciding:
        return records
    span = {"at_owner": owner_of(key.app, key.user), "first": min(deciding), "last": max(deciding)}
    for log in logs_of(spans) | {number}:
        for row in connection.execute(_RECORDS, span | {"at_log": log}):
            if log == number or is_visible(spans, log, row.sequence):
                records[row.sequence] = selection_of(row)
    return records
