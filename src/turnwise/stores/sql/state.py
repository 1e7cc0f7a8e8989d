"""State that sessions share, one row per key. The last writer wins."""

from functools import cache
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Connection, Insert, and_, bindparam, delete, select

from turnwise.facts.sessions import ScopedState, Session
from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.stores.sql.rows import with_shared
from turnwise.stores.sql.tables import APP_OWNER, insert_for, scoped_state, user_owner

_c = scoped_state.c

_READ = PreparedStatement(
    select(_c.owner, _c.key, _c.value).where(
        _c.app == bindparam("at_app"), _c.owner.in_([bindparam("at_app_owner"), bindparam("at_user_owner")])
    )
)
_REMOVE = delete(scoped_state).where(
    and_(_c.app == bindparam("at_app"), _c.owner == bindparam("at_owner"), _c.key == bindparam("at_key"))
)
_REMOVE_USER = delete(scoped_state).where(_c.app == bindparam("at_app"), _c.owner == bindparam("at_owner"))


@cache
def _write(dialect: str) -> Insert:
    insert = insert_for(dialect, scoped_state)
    return insert.on_conflict_do_update(index_elements=["app", "owner", "key"], set_={"value": insert.excluded.value})


def read_shared(connection: Connection, session: Session) -> Session:
    """Returns the session with the current state of the app and the user."""
    owners = {"at_app": session.app, "at_app_owner": APP_OWNER, "at_user_owner": user_owner(session.user)}
    return with_shared(session, _READ.rows(connection, owners))


def write_shared(connection: Connection, app: str, user: str, delta: ScopedState) -> None:
    """Writes the shared part of a delta. None values remove their keys."""
    items = [(APP_OWNER, key, value) for key, value in delta.app.items()]
    items += [(user_owner(user), key, value) for key, value in delta.user.items()]
    # In one order everywhere, so that two transactions never deadlock.
    items.sort(key=lambda item: item[:2])
    written: list[dict[str, Any]] = [
        {"app": app, "owner": owner, "key": key, "value": to_json(value).decode()}
        for owner, key, value in items
        if value is not None
    ]
    removed = [{"at_app": app, "at_owner": owner, "at_key": key} for owner, key, value in items if value is None]
    if written:
        connection.execute(_write(connection.dialect.name), written)
    if removed:
        connection.execute(_REMOVE, removed)


def delete_user_state(connection: Connection, app: str, user: str) -> None:
    connection.execute(_REMOVE_USER, {"at_app": app, "at_owner": user_owner(user)})
