"""Invocations as their decisions tell of them: how each stands, the one that changed last first."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, func, literal_column, or_, select, tuple_

from turnwise.facts.events import LIMIT
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import InvocationInfo, Page
from turnwise.stores.sql.cursors import check_limit, cursor, read_cursor
from turnwise.stores.sql.log import session_row_id
from turnwise.stores.sql.rows import AnyRow, moment, time_text
from turnwise.stores.sql.tables import decisions, events, session_params, sessions

_s, _d, _e = sessions.c, decisions.c, events.c

_COLUMNS = (_d.id, _s.user_id, _s.session_id, _d.sequence, _e.event_id, _d.invocation_id, _d.state, _d.changed_at)
_BEGUN = decisions.join(sessions, _s.id == _d.session).join(events, (_e.session == _d.session) & (_e.sequence == _d.sequence))
# Written out, because a partial index is used only for the very condition it was made with.
_HAS_STATE = literal_column("turnwise_decisions.changed_at").is_not(None)


class Wanted(NamedTuple):
    """Which invocations are listed, as `Decisions.invocations` takes it."""

    app: str
    user: str
    key: SessionKey | None
    states: Sequence[str] | None
    since: datetime | None

    @property
    def is_nobody(self) -> bool:
        """Whether there can be none: the session is another's."""
        return self.key is not None and self.key[:2] != (self.app, self.user)


class _Kind(NamedTuple):
    """Which conditions a statement has."""

    key: bool
    states: bool
    limits: bool
    since: bool


def page(connection: Connection, wanted: Wanted, after: str | None, limit: int) -> Page[InvocationInfo]:
    check_limit(limit)
    values: dict[str, Any] = {"at_most": limit + 1}
    if after is not None:
        values["after_changed"], values["after_id"] = read_cursor("invocations", after, str, int)
    if wanted.is_nobody:
        return Page((), None)
    rows = connection.execute(_page(_kind(wanted), after=after is not None), values | _values(wanted)).all()
    found = tuple(_info(wanted.app, row) for row in rows[:limit])
    more = len(rows) > limit
    return Page(found, cursor("invocations", rows[limit - 1].changed_at, rows[limit - 1].id) if more else None)


def count(connection: Connection, wanted: Wanted) -> int:
    if wanted.is_nobody:
        return 0
    return int(connection.execute(_count(_kind(wanted)), _values(wanted)).scalar_one())


@cache
def _page(kind: _Kind, *, after: bool) -> Select[Any]:
    found = _filtered(select(*_COLUMNS).select_from(_BEGUN), kind)
    if after:
        found = found.where(tuple_(_d.changed_at, _d.id) < tuple_(bindparam("after_changed"), bindparam("after_id")))
    return found.order_by(_d.changed_at.desc(), _d.id.desc()).limit(bindparam("at_most"))


@cache
def _count(kind: _Kind) -> Select[Any]:
    return _filtered(select(func.count()).select_from(decisions), kind)


def _filtered(found: Select[Any], kind: _Kind) -> Select[Any]:
    found = found.where(_HAS_STATE)
    if kind.key:
        # With the user beside it SQLite would walk through all of his instead of beginning with the session.
        found = found.where(_d.session == session_row_id)
    else:
        found = found.where(_d.app == bindparam("at_decided_app"), _d.user_id == bindparam("at_decided_user"))
    if kind.states:
        among = [_d.state.in_(bindparam("states", expanding=True)), _d.state.is_(None)]
        found = found.where(or_(*among, *([_d.state.startswith(LIMIT)] if kind.limits else ())))
    return found.where(_d.changed_at >= bindparam("since")) if kind.since else found


def _kind(wanted: Wanted) -> _Kind:
    states = wanted.states or ()
    return _Kind(wanted.key is not None, wanted.states is not None, LIMIT in states, wanted.since is not None)


def _values(wanted: Wanted) -> dict[str, Any]:
    of_user = {"at_decided_app": wanted.app, "at_decided_user": wanted.user}
    values: dict[str, Any] = of_user if wanted.key is None else session_params(wanted.key)
    if wanted.states is not None:
        values["states"] = list(wanted.states)
    if wanted.since is not None:
        values["since"] = time_text(wanted.since)
    return values


def _info(app: str, row: AnyRow) -> InvocationInfo:
    key = SessionKey(app, row.user_id, row.session_id)
    return InvocationInfo(key, row.sequence, row.event_id, row.invocation_id, row.state, moment(row.changed_at))
