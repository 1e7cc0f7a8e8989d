"""Rests of agents as rows, changed by compare-and-set."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from turnwise.facts.errors import StoreError
from turnwise.ports.rests import Rest
from turnwise.stores.sql.app_tables import rests
from turnwise.stores.sql.tables import insert_for
from turnwise.stores.sql.worker_pool import Executor

_r = rests.c
_ALL = select(_r.version, _r.body).where(_r.app == bindparam("at_app")).order_by(_r.agent)
_REPLACE = (
    update(rests)
    .where(_r.app == bindparam("at_app"), _r.agent == bindparam("at_agent"), _r.version == bindparam("at_version"))
    .values(version=bindparam("new_version"), body=bindparam("new_body"))
)


class SqlRests:
    """The store's rests."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def all(self, app: str) -> Sequence[Rest]:
        return await self._executor.read(lambda connection: _all(connection, app))

    async def replace(self, app: str, rest: Rest) -> Rest | None:
        new = rest.replace(version=rest.version + 1)
        # After a commit of unknown outcome a repetition would meet its own version as another writer's.
        stored = await self._executor.write(lambda connection: _replace(connection, app, rest, new), repeatable=False)
        return new if stored else None


def _all(connection: Connection, app: str) -> list[Rest]:
    return [
        Rest.model_validate_json(row.body).replace(version=row.version) for row in connection.execute(_ALL, {"at_app": app})
    ]


def _replace(connection: Connection, app: str, rest: Rest, new: Rest) -> bool:
    """Inserts a first version, or updates the row if its version is the rest's. Returns whether it did."""
    if "\0" in app or "\0" in rest.agent:
        raise StoreError("The name of an app or agent holds the character NUL.", fix="Leave it out.")
    body = new.model_dump_json(exclude={"version"})
    values: dict[str, Any] = {"at_app": app, "at_agent": rest.agent, "at_version": rest.version}
    if rest.version:
        return connection.execute(_REPLACE, {**values, "new_version": new.version, "new_body": body}).rowcount == 1
    row = {"app": app, "agent": rest.agent, "version": new.version, "body": body}
    insert = insert_for(connection.dialect.name, rests).values(row).on_conflict_do_nothing().returning(_r.agent)
    return connection.execute(insert).first() is not None
