"""Decisions: every selection as a row, written with its event."""

from sqlalchemy import Connection, and_, bindparam, select

from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import Decision, Label
from turnwise.stores.sql.labels import place_of, put, remove_operators
from turnwise.stores.sql.rows import DECISION_COLUMNS, AnyRow, brief_selection_of, moment, selection_of
from turnwise.stores.sql.tables import decisions, sessions

_s, _d = sessions.c, decisions.c

COLUMNS = (
    _d.id,
    _s.user_id,
    _s.session_id,
    _d.sequence,
    _d.invocation_id,
    _d.text,
    *(_d[name] for name in DECISION_COLUMNS),
    _d.created_at,
    _d.label,
    _d.shadow,
)
BRIEF_COLUMNS = tuple(column for column in COLUMNS if column.name not in ("record", "shadow"))
"""The columns without the record."""
WITH_SESSION = decisions.outerjoin(sessions, (_s.owner == _d.owner) & (_s.number == _d.session))
_IS_ONE = and_(_d.owner == bindparam("at_owner"), _d.session == bindparam("at_log"), _d.sequence == bindparam("at_sequence"))
_FIND = select(*(column for column in COLUMNS if column.table is not sessions)).where(_IS_ONE)


def find(connection: Connection, key: SessionKey, sequence: int) -> Decision | None:
    place = place_of(connection, key, sequence)
    row = connection.execute(_FIND, place).first() if place is not None else None
    return decision_of(key, row) if row is not None else None


def decision_of(key: SessionKey, row: AnyRow, *, brief: bool = False) -> Decision:
    """Returns the decision of a row; `brief` for a row of `BRIEF_COLUMNS`."""
    label = row.label or None
    if brief:
        return Decision(key, row.sequence, row.invocation_id, row.text, brief_selection_of(row), moment(row.created_at), label)
    made = selection_of(row)
    shadow = Selection.model_validate_json(row.shadow) if row.shadow is not None else None
    return Decision(key, row.sequence, row.invocation_id, row.text, made, moment(row.created_at), label, shadow)


def label(connection: Connection, key: SessionKey, sequence: int, agent: str | None, actor: str, now: str) -> None:
    """Stores an operator's label; None removes the labels of all operators."""
    if agent is None:
        remove_operators(connection, key, sequence, actor, now)
    else:
        put(connection, key, sequence, Label(agent=agent, author=actor), actor, now)
