"""What tests of migrations share: a store for one call, the newest tables, and their shape."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from alembic import command
from sqlalchemy import Connection, inspect
from store_play import on

from turnwise.stores.sql import SqlSessionStore
from turnwise.stores.sql.schema import alembic_config

NewUrl = Callable[[], str]
"""Gives URLs of databases that do not exist yet, or are empty."""


def using(url: str, work: Callable[[SqlSessionStore], Coroutine[Any, Any, Any]]) -> Any:
    async def run() -> Any:
        store = SqlSessionStore(url)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


def migrate(url: str) -> None:
    """Runs every migration from nothing."""
    on(url, lambda connection: command.upgrade(alembic_config(connection), "head"))


def _plain(index: Any) -> str:
    options = {name: str(value) for name, value in index.get("dialect_options", {}).items()}
    return repr({**index, "dialect_options": options})


def shape(connection: Connection) -> dict[str, Any]:
    """All there is to know of the tables, in plain values."""
    found = inspect(connection)
    return {
        table: {
            "columns": [{**column, "type": repr(column["type"])} for column in found.get_columns(table)],
            "key": found.get_pk_constraint(table),
            "foreign": found.get_foreign_keys(table),
            "indexes": sorted(_plain(index) for index in found.get_indexes(table)),
            "unique": found.get_unique_constraints(table),
        }
        for table in sorted(found.get_table_names())
    }
