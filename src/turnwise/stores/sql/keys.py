"""API keys as rows, without their secrets."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, delete, or_, select, update
from sqlalchemy.sql.dml import ReturningInsert

from turnwise.facts.callers import ApiKey
from turnwise.facts.errors import StoreError
from turnwise.stores.sql.rows import moment, time_text
from turnwise.stores.sql.tables import column_params, insert_for, keys
from turnwise.stores.sql.worker_pool import Executor

_k = keys.c

_FIND = select(_k.body, _k.expires_at).where(_k.app == bindparam("at_app"), _k.key_id == bindparam("at_id"))
_LIST = select(_k.body, _k.expires_at).where(_k.app == bindparam("at_app")).order_by(_k.created_at, _k.key_id)
_IS_KEY = (_k.app == bindparam("at_app")) & (_k.key_id == bindparam("at_id"))
_IS_THERE = select(_k.key_id).where(_IS_KEY)
_EXPIRE = (
    update(keys)
    .where(_IS_KEY, or_(_k.expires_at.is_(None), _k.expires_at > bindparam("at")))
    .values(expires_at=bindparam("at"))
)
_FORGET = delete(keys).where(_IS_KEY)


class SqlKeys:
    """The store's API keys."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def add(self, app: str, key: ApiKey) -> None:
        await self._executor.write(lambda connection: _add(connection, app, key))

    async def find(self, app: str, id: str) -> ApiKey | None:
        return await self._executor.read(lambda connection: _find(connection, app, id))

    async def list(self, app: str) -> Sequence[ApiKey]:
        return await self._executor.read(lambda connection: _list(connection, app))

    async def expire(self, app: str, id: str, at: datetime) -> bool:
        return await self._executor.write(lambda connection: _expire(connection, app, id, at))

    async def forget(self, app: str, id: str) -> None:
        await self._executor.write(lambda connection: connection.execute(_FORGET, _at(app, id)))


@cache
def _insert(dialect: str) -> ReturningInsert[Any]:
    inserted = insert_for(dialect, keys).values(column_params(keys))
    return inserted.on_conflict_do_nothing(index_elements=["app", "key_id"]).returning(_k.key_id)


def _at(app: str, id: str) -> dict[str, Any]:
    if "\0" in app or "\0" in id:
        raise StoreError("A key's app or id holds the character NUL.", fix="Leave it out.")
    return {"at_app": app, "at_id": id}


def _add(connection: Connection, app: str, key: ApiKey) -> None:
    """Stores an API key. The same key again changes nothing; another one with its id raises StoreError."""
    at = _at(app, key.id)
    expires_at = None if key.expires_at is None else time_text(key.expires_at)
    # The expiry has its own column: the only value that changes later.
    body = key.replace(expires_at=None).model_dump_json()
    row = {"app": app, "key_id": key.id, "created_at": time_text(key.created_at), "expires_at": expires_at, "body": body}
    if connection.execute(_insert(connection.dialect.name), row).first() is None:
        existing = connection.execute(_FIND, at).one()
        if ApiKey.model_validate_json(existing.body).hash != key.hash:
            raise StoreError(f"There is another key with the id {key.id!r}.", fix="Make the key anew: it gets another id.")


def _find(connection: Connection, app: str, id: str) -> ApiKey | None:
    row = connection.execute(_FIND, _at(app, id)).first()
    return _key(row) if row else None


def _list(connection: Connection, app: str) -> list[ApiKey]:
    return [_key(row) for row in connection.execute(_LIST, {"at_app": _at(app, "")["at_app"]})]


def _expire(connection: Connection, app: str, id: str, at: datetime) -> bool:
    params = _at(app, id)
    connection.execute(_EXPIRE, {**params, "at": time_text(at)})
    return connection.execute(_IS_THERE, params).first() is not None


def _key(row: Any) -> ApiKey:
    expires_at = None if row.expires_at is None else moment(row.expires_at)
    return ApiKey.model_validate_json(row.body).replace(expires_at=expires_at)
