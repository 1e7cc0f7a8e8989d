"""Decisions: every selection as a row, written with its event, and the labels of evaluators."""

from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Insert, Select, and_, bindparam, delete, false, or_, select

from turnwise.facts.errors import InvocationMissing
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import Decision, Page
from turnwise.stores.sql.cursors import check_limit, cursor, read_cursor
from turnwise.stores.sql.log import read_spans
from turnwise.stores.sql.rows import DECISION_COLUMNS, AnyRow, moment, selection_of
from turnwise.stores.sql.spans import all_of, log_at
from turnwise.stores.sql.tables import decisions, insert_for, labels, owner_of, sessions

_s, _d, _l = sessions.c, decisions.c, labels.c

_COLUMNS = (
    _d.id,
    _s.user_id,
    _s.session_id,
    _d.sequence,
    _d.invocation_id,
    _d.text,
    *(_d[name] for name in DECISION_COLUMNS),
    _d.created_at,
    _l.label,
)
_IS_LABEL = (_l.owner == _d.owner) & (_l.session == _d.session) & (_l.sequence == _d.sequence)
_LABELLED = decisions.outerjoin(sessions, (_s.owner == _d.owner) & (_s.number == _d.session)).outerjoin(labels, _IS_LABEL)
_IS_ONE = and_(_d.owner == bindparam("at_owner"), _d.session == bindparam("at_log"), _d.sequence == bindparam("at_sequence"))
_DECIDED = select(_d.session).where(_IS_ONE)
_UNLABEL = delete(labels).where(
    _l.owner == bindparam("at_owner"), _l.session == bindparam("at_log"), _l.sequence == bindparam("at_sequence")
)
_FIND = (
    select(*(column for column in _COLUMNS if column.table is not sessions))
    .select_from(decisions.outerjoin(labels, _IS_LABEL))
    .where(_IS_ONE)
)


class Filter(NamedTuple):
    """The decisions to search; None = any."""

    app: str
    user: str | None
    key: SessionKey | None
    agent: str | None
    method: str | None


@cache
def _search(*, user: bool, key: bool, agent: bool, method: bool) -> Select[Any]:
    found = select(*_COLUMNS).select_from(_LABELLED).where(_d.app == bindparam("at_decided_app"), _d.id > bindparam("after"))
    if not key:
        found = found.where(_s.number.is_not(None))
    if user:
        found = found.where(_d.owner == bindparam("at_owner"))
    if agent:
        found = found.where(_d.agent == bindparam("agent"))
    if method:
        found = found.where(_d.method == bindparam("method"))
    return found.order_by(_d.id).limit(bindparam("at_most"))


def search(connection: Connection, filter_: Filter, after: str | None, limit: int) -> Page[Decision]:
    check_limit(limit)
    app, user, key, agent, method = filter_
    if key is not None and (key.app, key.user) != (app, user or key.user):
        return Page((), None)
    values: dict[str, Any] = {"at_decided_app": app, "at_most": limit + 1, "after": 0}
    if after is not None:
        (values["after"],) = read_cursor("decisions", after, int)
    if user is not None or key is not None:
        values["at_owner"] = owner_of(app, key.user if key is not None else user or "")
    values |= {name: value for name, value in (("agent", agent), ("method", method)) if value is not None}
    statement = _search(user="at_owner" in values, key=key is not None, agent=agent is not None, method=method is not None)
    if key is not None:
        statement = statement.where(_is_shown_by(connection, key))
    rows = connection.execute(statement, values).all()
    found = tuple(_decision(key or SessionKey(app, row.user_id, row.session_id), row) for row in rows[:limit])
    return Page(found, cursor("decisions", rows[limit - 1].id) if len(rows) > limit else None)


def _is_shown_by(connection: Connection, key: SessionKey) -> ColumnElement[bool]:
    """Returns the condition of decisions in a session's own log or in the parts that it inherited."""
    found = read_spans(connection, key)
    if found is None:
        return false()
    number, spans = found
    inherited = (
        and_(_d.session == span.log, _d.sequence >= span.first, _d.sequence <= span.last)
        for span in spans
        if span.log != number
    )
    return or_(_d.session == number, *inherited)


def find(connection: Connection, key: SessionKey, sequence: int) -> Decision | None:
    place = _place(connection, key, sequence)
    row = connection.execute(_FIND, place).first() if place is not None else None
    return _decision(key, row) if row is not None else None


def _place(connection: Connection, key: SessionKey, sequence: int) -> dict[str, Any] | None:
    """Returns the key of the decision's row, in the session's own log or an inherited one; None for a missing session."""
    found = read_spans(connection, key)
    if found is None:
        return None
    number, spans = found
    log = log_at(all_of(spans, number), sequence)
    return {"at_owner": owner_of(key.app, key.user), "at_log": log, "at_sequence": sequence}


def _decision(key: SessionKey, row: AnyRow) -> Decision:
    return Decision(key, row.sequence, row.invocation_id, row.text, selection_of(row), moment(row.created_at), row.label)


@cache
def _label(dialect: str) -> Insert:
    insert = insert_for(dialect, labels)
    return insert.on_conflict_do_update(index_elements=["owner", "session", "sequence"], set_={"label": insert.excluded.label})


def label(connection: Connection, key: SessionKey, sequence: int, agent: str | None) -> None:
    place = _place(connection, key, sequence)
    if place is None or connection.execute(_DECIDED, place).first() is None:
        raise InvocationMissing(
            f"Session {key.id!r} has no decision at sequence number {sequence}.", fix="Search its decisions for the numbers."
        )
    if agent is None:
        connection.execute(_UNLABEL, place)
    else:
        row = {"owner": place["at_owner"], "session": place["at_log"], "sequence": sequence, "label": agent}
        connection.execute(_label(connection.dialect.name), row)
