"""Invocations and their states, read from the decisions that began them, the last changed first."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, func, literal_column, or_, select, tuple_

from turnwise.facts.events import LIMIT
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import InvocationInfo, Page
from turnwise.stores.sql.cursors import check_limit, cursor, read_cursor
from turnwise.stores.sql.hidden_states import is_hidden
from turnwise.stores.sql.log import session_number
from turnwise.stores.sql.rows import AnyRow, moment, time_text
from turnwise.stores.sql.tables import decisions, events, owner_of, session_params, sessions

_s, _d, _e = sessions.c, decisions.c, events.c

_COLUMNS = (_d.id, _s.user_id, _s.session_id, _d.sequence, _e.event_id, _d.invocation_id, _d.state, _d.changed_at)
_BEGUN = decisions.join(sessions, (_s.owner == _d.owner) & (_s.number == _d.session)).join(
    events, (_e.owner == _d.owner) & (_e.log == _d.session) & (_e.sequence == _d.sequence)
)
# Written out, because a partial index is used only for exactly its own condition.
_HAS_STATE = literal_column("turnwise_decisions.changed_at").is_not(None)


class Filter(NamedTuple):
    """The invocations to list; the parameters of `Decisions.invocations`."""

    app: str
    user: str
    key: SessionKey | None
    states: Sequence[str] | None
    since: datetime | None

    @property
    def is_empty(self) -> bool:
        """True when it matches nothing: the session belongs to another app or user."""
        return self.key is not None and self.key[:2] != (self.app, self.user)


class _Conditions(NamedTuple):
    """The conditions of a statement."""

    key: bool
    states: bool
    limits: bool
    since: bool


def page(connection: Connection, filter_: Filter, after: str | None, limit: int) -> Page[InvocationInfo]:
    """Returns a page of invocations, the last changed first."""
    check_limit(limit)
    values: dict[str, Any] = {"at_most": limit + 1}
    if after is not None:
        values["after_changed"], values["after_id"] = read_cursor("invocations", after, str, int)
    if filter_.is_empty:
        return Page((), None)
    rows = connection.execute(_page(_conditions_of(filter_), after=after is not None), values | _values(filter_)).all()
    found = tuple(_info(filter_.app, row) for row in rows[:limit])
    more = len(rows) > limit
    return Page(found, cursor("invocations", rows[limit - 1].changed_at, rows[limit - 1].id) if more else None)


def count(connection: Connection, filter_: Filter) -> int:
    if filter_.is_empty:
        return 0
    return int(connection.execute(_count(_conditions_of(filter_)), _values(filter_)).scalar_one())


@cache
def _page(conditions: _Conditions, *, after: bool) -> Select[Any]:
    found = _filtered(select(*_COLUMNS).select_from(_BEGUN), conditions)
    if after:
        found = found.where(tuple_(_d.changed_at, _d.id) < tuple_(bindparam("after_changed"), bindparam("after_id")))
    return found.order_by(_d.changed_at.desc(), _d.id.desc()).limit(bindparam("at_most"))


@cache
def _count(conditions: _Conditions) -> Select[Any]:
    return _filtered(select(func.count()).select_from(decisions), conditions)


def _filtered(found: Select[Any], conditions: _Conditions) -> Select[Any]:
    """Adds the filter's conditions to the query."""
    found = found.where(_HAS_STATE, ~is_hidden())
    found = found.where(_d.owner == bindparam("at_owner"))
    if conditions.key:
        found = found.where(_d.session == session_number)
    else:
        found = found.where(_d.app == bindparam("at_decided_app"), _d.user_id == bindparam("at_decided_user"))
    if conditions.states:
        in_states = [_d.state.in_(bindparam("states", expanding=True)), _d.state.is_(None)]
        found = found.where(or_(*in_states, *([_d.state.startswith(LIMIT)] if conditions.limits else ())))
    return found.where(_d.changed_at >= bindparam("since")) if conditions.since else found


def _conditions_of(filter_: Filter) -> _Conditions:
    states = filter_.states or ()
    return _Conditions(filter_.key is not None, filter_.states is not None, LIMIT in states, filter_.since is not None)


def _values(filter_: Filter) -> dict[str, Any]:
    """Returns the filter's values for the query."""
    of_user = {"at_decided_app": filter_.app, "at_decided_user": filter_.user, "at_owner": owner_of(filter_.app, filter_.user)}
    values: dict[str, Any] = of_user if filter_.key is None else session_params(filter_.key)
    if filter_.states is not None:
        values["states"] = list(filter_.states)
    if filter_.since is not None:
        values["since"] = time_text(filter_.since)
    return values


def _info(app: str, row: AnyRow) -> InvocationInfo:
    key = SessionKey(app, row.user_id, row.session_id)
    return InvocationInfo(key, row.sequence, row.event_id, row.invocation_id, row.state, moment(row.changed_at))
