"""Sessions: create, open, list and delete."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

from pydantic import JsonValue
from sqlalchemy import Connection, Select, bindparam, distinct, func, select, tuple_

from turnwise.facts.errors import SessionExists
from turnwise.facts.sessions import Session, SessionKey, merge, split_state
from turnwise.ports.decisions import Page
from turnwise.ports.maintenance import Usage
from turnwise.ports.stores import SessionInfo
from turnwise.stores.sql.cursors import check_limit, cursor, read_cursor
from turnwise.stores.sql.inbox import insert_session
from turnwise.stores.sql.memory_tables import memory_users
from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.stores.sql.rows import (
    HeadRow,
    blank_session,
    moment,
    read_shared,
    session_of,
    state_of,
    state_text,
    write_shared,
)
from turnwise.stores.sql.tables import is_session, live_holder, owner_of, session_params, sessions, shares

_s = sessions.c

_COLUMNS = (_s[name] for name in HeadRow._fields if name != "holder")
_HEAD = PreparedStatement(select(*_COLUMNS, live_holder().label("holder")).where(is_session()))
_INITIAL_STATE = select(_s.initial_state).where(is_session())
_OF_USER = (_s.owner == bindparam("at_owner"), _s.app == bindparam("at_app"), _s.user_id == bindparam("at_user"))
_USAGE = select(func.count(), func.coalesce(func.sum(_s.bytes), 0)).where(*_OF_USER)
_FORKS = select(func.count(distinct(shares.c.session))).where(shares.c.owner == bindparam("at_owner"))
_MEMORY = select(memory_users.c.entries, memory_users.c.bytes).where(
    memory_users.c.owner == bindparam("at_owner"),
    memory_users.c.app == bindparam("at_app"),
    memory_users.c.user_id == bindparam("at_user"),
)


def create(connection: Connection, key: SessionKey, state: Mapping[str, JsonValue], now: str) -> Session:
    """Stores an empty session of revision 1. SessionExists."""
    scoped = split_state(state)
    own = state_text(merge({}, scoped.session))
    if insert_session(connection, key, now, state=own, initial_state=own) is None:
        raise session_exists(key)
    write_shared(connection, key.app, key.user, scoped)
    created = open_session(connection, key)
    assert created is not None
    return created


def session_exists(key: SessionKey) -> SessionExists:
    return SessionExists(
        f"User {key.user!r} of app {key.app!r} has a session {key.id!r} already.", fix="Open it, or choose another id."
    )


def head_row(connection: Connection, key: SessionKey) -> HeadRow | None:
    row = _HEAD.row(connection, session_params(key))
    return HeadRow(*row) if row else None


def initial_state(connection: Connection, key: SessionKey) -> dict[str, JsonValue] | None:
    """Returns the state that the session was created with; None if it was deleted since its row was read."""
    text = connection.execute(_INITIAL_STATE, session_params(key)).scalar()
    return None if text is None else state_of(text)


def open_session(connection: Connection, key: SessionKey, blank_at: datetime | None = None) -> Session | None:
    """Returns the session with its shared state. Without one: a blank session created at `blank_at`, or None without that
    time.
    """
    row = head_row(connection, key)
    if row is not None:
        return read_shared(connection, session_of(key, row))
    return read_shared(connection, blank_session(key, blank_at)) if blank_at else None


@cache
def _page(*, user: bool, after: bool) -> Select[Any]:
    """Returns the query for a page of sessions, by user and id."""
    found = select(_s.user_id, _s.session_id, _s.revision, _s.last_sequence, _s.created_at, _s.updated_at)
    found = found.where(_s.app == bindparam("at_app"))
    if user:
        found = found.where(_s.owner == bindparam("at_owner"), _s.user_id == bindparam("at_user"))
    if after:
        found = found.where(tuple_(_s.user_id, _s.session_id) > tuple_(bindparam("after_user"), bindparam("after_id")))
    return found.order_by(_s.user_id, _s.session_id).limit(bindparam("at_most"))


def list_sessions(connection: Connection, app: str, user: str | None, after: str | None, limit: int) -> Page[SessionInfo]:
    """Lists an app's sessions by user and id, a page at a time."""
    check_limit(limit)
    values: dict[str, Any] = {"at_app": app, "at_most": limit + 1}
    if user is not None:
        values |= {"at_user": user, "at_owner": owner_of(app, user)}
    if after is not None:
        values["after_user"], values["after_id"] = read_cursor("sessions", after, str, str)
    rows = connection.execute(_page(user=user is not None, after=after is not None), values).all()
    infos = tuple(
        SessionInfo(
            SessionKey(app, row.user_id, row.session_id),
            row.revision,
            row.last_sequence,
            moment(row.created_at),
            moment(row.updated_at),
        )
        for row in rows[:limit]
    )
    return Page(infos, cursor("sessions", infos[-1].key.user, infos[-1].key.id) if len(rows) > limit else None)


def usage(connection: Connection, app: str, user: str) -> Usage:
    """Returns how many sessions, forks, bytes and memory entries the user has."""
    at = {"at_owner": owner_of(app, user), "at_app": app, "at_user": user}
    count, size = connection.execute(_USAGE, at).one()
    forks = connection.execute(_FORKS, {"at_owner": at["at_owner"]}).scalar_one()
    memory = connection.execute(_MEMORY, at).first()
    entries, texts = memory or (0, 0)
    return Usage(count, forks, int(size) + texts, entries)
