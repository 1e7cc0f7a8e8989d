"""A fork: the visible log, or its beginning, copied under a new id without reading it into Python."""

from functools import cache
from typing import Any

from sqlalchemy import Connection, Insert, bindparam, func, insert, literal, select

from turnwise.facts.sessions import Session, SessionKey
from turnwise.stores.sql.catalog import open_session, taken
from turnwise.stores.sql.inbox import insert_session
from turnwise.stores.sql.log import advanced
from turnwise.stores.sql.replay import Origin, Progress, Span, span_values, visible
from turnwise.stores.sql.rows import state_text
from turnwise.stores.sql.tables import decisions, events

_e, _d = events.c, decisions.c


class LogChanged(Exception):
    """The log was rewound since it was folded. The store's own business: it folds again."""


@cache
def _copy_events(*, behind: bool) -> Insert:
    numbered = func.row_number().over(order_by=_e.sequence)
    kept = visible(copy=True, behind=behind).with_only_columns(
        bindparam("new_row", type_=_e.session.type), numbered, _e.event_id, _e.invocation_id, _e.author, literal(False), _e.body
    )
    columns = ["session", "sequence", "event_id", "invocation_id", "author", "hidden", "body"]
    # PostgreSQL's dialect forgets how many rows an INSERT made, unless it is asked.
    return insert(events).inline().from_select(columns, kept).execution_options(preserve_rowcount=True)


def _copy_decisions() -> Insert:
    # The same event carries them in both logs; only its number differs. How an invocation stands is told where it ran.
    old, new = events.alias("old"), events.alias("new")
    same = old.join(new, new.c.event_id == old.c.event_id)
    copied = [column for column in _d if column.name not in {"id", "session", "sequence", "state", "changed_at"}]
    kept = (
        select(new.c.session, new.c.sequence, *copied)
        .select_from(decisions.join(same, (old.c.session == _d.session) & (old.c.sequence == _d.sequence)))
        .where(_d.session == bindparam("at_row"), new.c.session == bindparam("new_row"))
        .order_by(new.c.sequence)
    )
    return insert(decisions).inline().from_select(["session", "sequence", *(column.name for column in copied)], kept)


_COPY_DECISIONS = _copy_decisions()


def write_fork(connection: Connection, new: SessionKey, *, place: Origin, span: Span, progress: Progress, now: str) -> Session:
    """Stores the copy. SessionExists; LogChanged."""
    values: dict[str, Any] = advanced(progress.session) | {"revision": 1, "updated_at": now}
    state, initial = state_text(progress.session.state), state_text(place.empty.state)
    row_id = insert_session(connection, new, now, **values, state=state, initial_state=initial)
    if row_id is None:
        raise taken(new)
    copied = connection.execute(_copy_events(behind=bool(span.behind)), span_values(span) | {"new_row": row_id}).rowcount
    if copied != progress.folded:
        raise LogChanged
    connection.execute(_COPY_DECISIONS, {"at_row": span.row_id, "new_row": row_id})
    copy = open_session(connection, new)
    assert copy is not None
    return copy
