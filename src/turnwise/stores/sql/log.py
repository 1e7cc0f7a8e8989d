"""The event log: reads events, and writes an append plan."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Update, bindparam, exists, insert, select, update

from turnwise.facts.errors import SessionMissing, StaleWriter
from turnwise.facts.events import Event
from turnwise.facts.sessions import Session, SessionKey, merge
from turnwise.stores.sql import jobs
from turnwise.stores.sql.append_plan import AppendPlan
from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.stores.sql.rows import event_of, state_of, state_text, time_text, write_shared
from turnwise.stores.sql.tables import LEASE_RELEASED, column_params, decisions, events, is_session, session_params, sessions

_s, _e, _d = sessions.c, events.c, decisions.c

session_row_id = select(_s.id).where(is_session()).scalar_subquery()
"""Subquery for the row id of the session of `session_params`."""

_INSERT_EVENTS = PreparedStatement(insert(events).values(column_params(events)).inline())
_INSERT_DECISIONS = PreparedStatement(insert(decisions).values(column_params(decisions, "id")).inline())
_SET_INVOCATION_STATE = PreparedStatement(
    update(decisions)
    .where(_d.session == bindparam("at_row"), _d.sequence == bindparam("at_sequence"))
    # The user is set too: a process of an older version that still runs leaves the column empty.
    .values(user_id=bindparam("user"), state=bindparam("state"), changed_at=bindparam("changed_at"))
)
_HIDE = (
    update(events)
    .where(_e.session == bindparam("at_row"), _e.sequence >= bindparam("at_from"), _e.sequence < bindparam("at_end"))
    .where(_e.hidden.is_(False))
    .values(hidden=True)
)
_CLEAR_INVOCATION_STATE = (
    update(decisions)
    .where(_d.session == bindparam("at_row"), _d.sequence >= bindparam("at_from"))
    .values(state=None, changed_at=None)
)
_SET_STATE = PreparedStatement(
    update(sessions).where(_s.id == bindparam("at_row")).values(state=bindparam("state")).returning(_s.id)
)
_KNOWN = select(_e.event_id).where(_e.session == session_row_id, _e.event_id.in_(bindparam("ids", expanding=True)))
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


ADVANCED = ("revision", "last_sequence", "updated_at", "head")
"""The columns that every append sets."""


def advanced_values(after: Session) -> dict[str, Any]:
    return {
        "revision": after.revision,
        "last_sequence": after.last_sequence,
        "updated_at": time_text(after.updated_at),
        "head": after.head.model_dump_json(),
    }


class AdvancedRow(NamedTuple):
    """The columns of a session's row that an update returns."""

    id: int
    queued: int
    stop: str | None
    state: str | None = None
    """The state before the update; None unless the plan changes it."""


def advance_statement(statement: Update, *, with_state: bool) -> PreparedStatement:
    """Returns a statement that sets the columns `ADVANCED` and returns an `AdvancedRow`.

    Accepting a message locks the row. The count `queued` thus includes every message accepted before this transaction commits.
    """
    updated = statement.values({name: bindparam(name) for name in ADVANCED})
    return PreparedStatement(updated.returning(_s.id, _s.queued, _s.stop, *([_s.state] if with_state else [])))


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
    values = token_params(plan.before) | advanced_values(plan.after)
    row = _advance(release=release, with_state=bool(plan.delta.session)).row(connection, values)
    if row is None:
        raise missing_or_stale(connection, plan.before.key)
    return write(connection, AdvancedRow(*row), plan, holder=None if release else plan.before.holder)


def write(connection: Connection, row: AdvancedRow, plan: AppendPlan, *, holder: str | None) -> Session:
    """Writes everything of a plan but the session's row, which is already updated. Returns the session as it is now."""
    if plan.hide_from is not None:
        _hide(connection, row.id, plan.hide_from, end=plan.before.last_sequence + 1)
    if plan.events:
        _INSERT_EVENTS.run_many(connection, [event | {"session": row.id} for event in plan.events])
    if plan.decisions:
        _INSERT_DECISIONS.run_many(connection, [decision | {"session": row.id} for decision in plan.decisions])
    if plan.state_changes:
        _SET_INVOCATION_STATE.run_many(
            connection, [change | {"at_row": row.id, "user": plan.before.user} for change in plan.state_changes]
        )
    if plan.jobs:
        jobs.insert_jobs(connection, row.id, plan.jobs)
    if plan.delta.app or plan.delta.user:
        write_shared(connection, plan.before.app, plan.before.user, plan.delta)
    update: dict[str, Any] = {"holder": holder, "queued": row.queued, "stop": row.stop}
    return plan.after.replace_valid(**update, **_write_state(connection, row, plan))


def _hide(connection: Connection, row_id: int, first: int, *, end: int) -> None:
    hidden = {"at_row": row_id, "at_from": first}
    connection.execute(_HIDE, hidden | {"at_end": end})
    connection.execute(_CLEAR_INVOCATION_STATE, hidden)
    jobs.delete_hidden(connection, row_id, first)


def _write_state(connection: Connection, row: AdvancedRow, plan: AppendPlan) -> dict[str, Any]:
    """Writes the session's state and returns the fields that differ from the plan's session."""
    if plan.hide_from is not None:
        state = plan.after.state
    elif row.state is None:
        return {}
    else:
        # Merged into the stored state: the caller may have changed the dictionaries of its session object.
        state = merge(state_of(row.state), plan.delta.session)
    _SET_STATE.rows(connection, {"at_row": row.id, "state": state_text(state)})
    return {"state": state}


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
    """Returns which of these events the session already has."""
    return frozenset(connection.execute(_KNOWN, session_params(key) | {"ids": list(ids)}).scalars())


@cache
def _events(*, newest: bool, bounded: bool, invocation: bool, hidden: bool) -> PreparedStatement:
    found = select(_e.sequence, _e.body).where(_e.session == session_row_id, _e.sequence > bindparam("after"))
    if bounded:
        found = found.where(_e.sequence < bindparam("before"))
    if invocation:
        found = found.where(_e.invocation_id == bindparam("invocation"))
    if not hidden:
        found = found.where(_e.hidden.is_(False))
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


def read_events(connection: Connection, key: SessionKey, window: Window) -> list[Event]:
    newest, bounded, invocation = window.last is not None, window.before is not None, window.invocation_id is not None
    at_most = window.last if newest else window.limit
    values = session_params(key) | {"after": window.after, "at_most": 2**62 if at_most is None else at_most}
    if bounded:
        values["before"] = window.before
    if invocation:
        values["invocation"] = window.invocation_id
    rows = _events(newest=newest, bounded=bounded, invocation=invocation, hidden=window.hidden).rows(connection, values)
    if newest:
        rows = rows[::-1][: window.limit]
    return [event_of(sequence, body) for sequence, body in rows]
