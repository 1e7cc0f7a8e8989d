"""Decisions: every selection as a row, written with its event, and the labels of evaluators."""

from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, false, or_, select

from turnwise.facts.labels import Label
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import Decision, Page
from turnwise.stores.sql.cursors import check_limit, cursor, read_cursor
from turnwise.stores.sql.labels import SHOWN_LABEL, place_of, put, remove_operators
from turnwise.stores.sql.log import read_spans
from turnwise.stores.sql.rows import DECISION_COLUMNS, AnyRow, moment, selection_of
from turnwise.stores.sql.tables import decisions, owner_of, sessions

_s, _d = sessions.c, decisions.c

_COLUMNS = (
    _d.id,
    _s.user_id,
    _s.session_id,
    _d.sequence,
    _d.invocation_id,
    _d.text,
    *(_d[name] for name in DECISION_COLUMNS),
    _d.created_at,
    SHOWN_LABEL.label("label"),
)
_WITH_SESSION = decisions.outerjoin(sessions, (_s.owner == _d.owner) & (_s.number == _d.session))
_IS_ONE = and_(_d.owner == bindparam("at_owner"), _d.session == bindparam("at_log"), _d.sequence == bindparam("at_sequence"))
_FIND = select(*(column for column in _COLUMNS if column is not _s.user_id and column is not _s.session_id)).where(_IS_ONE)


class Filter(NamedTuple):
    """The decisions to search; None = any."""

    app: str
    user: str | None
    key: SessionKey | None
    agent: str | None
    method: str | None


@cache
def _search(*, user: bool, key: bool, agent: bool, method: bool) -> Select[Any]:
    found = (
        select(*_COLUMNS).select_from(_WITH_SESSION).where(_d.app == bindparam("at_decided_app"), _d.id > bindparam("after"))
    )
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
    place = place_of(connection, key, sequence)
    row = connection.execute(_FIND, place).first() if place is not None else None
    return _decision(key, row) if row is not None else None


def _decision(key: SessionKey, row: AnyRow) -> Decision:
    return Decision(key, row.sequence, row.invocation_id, row.text, selection_of(row), moment(row.created_at), row.label)


def label(connection: Connection, key: SessionKey, sequence: int, agent: str | None, actor: str, now: str) -> None:
    """Stores an operator's label; None removes the labels of all operators."""
    if agent is None:
        remove_operators(connection, key, sequence, actor, now)
    else:
        put(connection, key, sequence, Label(agent=agent, author=actor), actor, now)
