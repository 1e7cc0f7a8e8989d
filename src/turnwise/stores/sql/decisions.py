"""Decisions: every selection as a row, written with its event, and the labels of evaluators."""

from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Insert, Select, bindparam, delete, select

from turnwise.facts.errors import InvocationMissing
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import Decision, Page
from turnwise.stores.sql.cursors import check_limit, cursor, read_cursor
from turnwise.stores.sql.log import session_row_id
from turnwise.stores.sql.rows import AnyRow, moment
from turnwise.stores.sql.tables import decisions, insert_for, is_session, labels, session_params, sessions

_s, _d, _l = sessions.c, decisions.c, labels.c
_t = sessions.alias("theirs").c

_COLUMNS = (_d.id, _s.user_id, _s.session_id, _d.sequence, _d.invocation_id, _d.text, _d.selection, _d.created_at, _l.label)
_LABELLED = decisions.join(sessions, _s.id == _d.session).outerjoin(
    labels, (_l.session == _d.session) & (_l.sequence == _d.sequence)
)
_DECIDED = select(_d.session).join(sessions, _s.id == _d.session).where(is_session(), _d.sequence == bindparam("at_sequence"))
_UNLABEL = delete(labels).where(_l.session == bindparam("at_row"), _l.sequence == bindparam("at_sequence"))


_FIND = select(*_COLUMNS).select_from(_LABELLED).where(is_session(), _d.sequence == bindparam("at_sequence"))
_OF_USER = select(_t.id).where(_t.app == bindparam("at_decided_app"), _t.user_id == bindparam("at_decided_user"))


class Filter(NamedTuple):
    """The decisions to search; None = any."""

    app: str
    user: str | None
    key: SessionKey | None
    agent: str | None
    method: str | None


@cache
def _search(*, user: bool, key: bool, agent: bool, method: bool) -> Select[Any]:
    found = select(*_COLUMNS).select_from(_LABELLED).where(_d.id > bindparam("after"))
    # With the app as a further condition, SQLite would scan all decisions instead of starting with the user's sessions.
    found = found.where(_d.session.in_(_OF_USER) if user else _d.app == bindparam("at_decided_app"))
    if key:
        found = found.where(_d.session == session_row_id)
    if agent:
        found = found.where(_d.agent == bindparam("agent"))
    if method:
        found = found.where(_d.method == bindparam("method"))
    return found.order_by(_d.id).limit(bindparam("at_most"))


def search(connection: Connection, filter_: Filter, after: str | None, limit: int) -> Page[Decision]:
    check_limit(limit)
    app, user, key, agent, method = filter_
    values: dict[str, Any] = {"at_decided_app": app, "at_most": limit + 1, "after": 0}
    if after is not None:
        (values["after"],) = read_cursor("decisions", after, int)
    if key is not None:
        values |= session_params(key)
    filters = (("at_decided_user", user), ("agent", agent), ("method", method))
    values |= {name: value for name, value in filters if value is not None}
    statement = _search(user=user is not None, key=key is not None, agent=agent is not None, method=method is not None)
    rows = connection.execute(statement, values).all()
    found = tuple(_decision(app, row) for row in rows[:limit])
    return Page(found, cursor("decisions", rows[limit - 1].id) if len(rows) > limit else None)


def find(connection: Connection, key: SessionKey, sequence: int) -> Decision | None:
    row = connection.execute(_FIND, session_params(key) | {"at_sequence": sequence}).first()
    return _decision(key.app, row) if row is not None else None


def _decision(app: str, row: AnyRow) -> Decision:
    return Decision(
        SessionKey(app, row.user_id, row.session_id),
        row.sequence,
        row.invocation_id,
        row.text,
        Selection.model_validate_json(row.selection),
        moment(row.created_at),
        row.label,
    )


@cache
def _label(dialect: str) -> Insert:
    insert = insert_for(dialect, labels)
    return insert.on_conflict_do_update(index_elements=["session", "sequence"], set_={"label": insert.excluded.label})


def label(connection: Connection, key: SessionKey, sequence: int, agent: str | None) -> None:
    row_id = connection.execute(_DECIDED, session_params(key) | {"at_sequence": sequence}).scalar()
    if row_id is None:
        raise InvocationMissing(
            f"Session {key.id!r} has no decision at sequence number {sequence}.", fix="Search its decisions for the numbers."
        )
    if agent is None:
        connection.execute(_UNLABEL, {"at_row": row_id, "at_sequence": sequence})
    else:
        row = {"session": row_id, "sequence": sequence, "label": agent}
        connection.execute(_label(connection.dialect.name), row)
