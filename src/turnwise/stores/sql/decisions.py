"""Decisions: every selection as a row, written with its event, and the labels of evaluators."""

from functools import cache
from typing import Any

from sqlalchemy import Connection, Insert, and_, bindparam, delete, select, update

from turnwise.facts.errors import InvocationMissing
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import Decision
from turnwise.stores.sql.log import read_spans
from turnwise.stores.sql.rows import DECISION_COLUMNS, AnyRow, moment, selection_of
from turnwise.stores.sql.spans import all_of, log_at
from turnwise.stores.sql.tables import decisions, insert_for, labels, owner_of, sessions

_s, _d, _l = sessions.c, decisions.c, labels.c

COLUMNS = (
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
WITH_LABELS = decisions.outerjoin(sessions, (_s.owner == _d.owner) & (_s.number == _d.session)).outerjoin(labels, _IS_LABEL)
_IS_ONE = and_(_d.owner == bindparam("at_owner"), _d.session == bindparam("at_log"), _d.sequence == bindparam("at_sequence"))
_DECIDED = select(_d.session).where(_IS_ONE)
_UNLABEL = delete(labels).where(
    _l.owner == bindparam("at_owner"), _l.session == bindparam("at_log"), _l.sequence == bindparam("at_sequence")
)
_SET_LABEL = update(decisions).where(_IS_ONE).values(label=bindparam("label"))
_FIND = (
    select(*(column for column in COLUMNS if column.table is not sessions))
    .select_from(decisions.outerjoin(labels, _IS_LABEL))
    .where(_IS_ONE)
)


def find(connection: Connection, key: SessionKey, sequence: int) -> Decision | None:
    place = _place(connection, key, sequence)
    row = connection.execute(_FIND, place).first() if place is not None else None
    return decision_of(key, row) if row is not None else None


def _place(connection: Connection, key: SessionKey, sequence: int) -> dict[str, Any] | None:
    """Returns the key of the decision's row, in the session's own log or an inherited one; None for a missing session."""
    found = read_spans(connection, key)
    if found is None:
        return None
    number, spans = found
    log = log_at(all_of(spans, number), sequence)
    return {"at_owner": owner_of(key.app, key.user), "at_log": log, "at_sequence": sequence}


def decision_of(key: SessionKey, row: AnyRow) -> Decision:
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
    connection.execute(_SET_LABEL, place | {"label": agent})
