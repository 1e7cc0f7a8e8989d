"""Statements of every turn: SQLAlchemy writes their SQL once, and SQLite's driver runs it without asking it again."""

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import Connection, Select
from sqlalchemy.sql.dml import UpdateBase


class _Prepared(NamedTuple):
    """SQL text, its parameters in order, and the values that the statement itself brings."""

    text: str
    names: tuple[str, ...]
    fixed: dict[str, Any]

    def values(self, given: dict[str, Any]) -> list[Any]:
        known = self.fixed | given
        return [known[name] for name in self.names]


class PreparedStatement:
    """A statement whose rows are tuples and whose parameters are plain numbers and texts; all of them are named.

    On PostgreSQL it is executed as any other: what this saves is little beside the way to the server.
    """

    def __init__(self, statement: Select[Any] | UpdateBase) -> None:
        self._statement = statement
        self._sqlite: _Prepared | None = None

    def rows(self, connection: Connection, values: dict[str, Any]) -> Sequence[Sequence[Any]]:
        """Executes it; gives all its rows."""
        if connection.dialect.name != "sqlite":
            return connection.execute(self._statement, values).all()
        prepared = self._sqlite or self._prepare(connection)
        return _driver(connection).execute(prepared.text, prepared.values(values)).fetchall()

    def row(self, connection: Connection, values: dict[str, Any]) -> Sequence[Any] | None:
        """Executes it; gives its first row, None without one."""
        rows = self.rows(connection, values)
        return rows[0] if rows else None

    def each(self, connection: Connection, many: list[dict[str, Any]]) -> None:
        """Executes it once for each of `many`."""
        if connection.dialect.name != "sqlite":
            connection.execute(self._statement, many)
            return
        prepared = self._sqlite or self._prepare(connection)
        _driver(connection).executemany(prepared.text, [prepared.values(values) for values in many])

    def _prepare(self, connection: Connection) -> _Prepared:
        compiled = self._statement.compile(dialect=connection.dialect)
        fixed = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
        self._sqlite = _Prepared(str(compiled), tuple(compiled.positiontup or ()), fixed)
        return self._sqlite


def _driver(connection: Connection) -> sqlite3.Connection:
    return cast("sqlite3.Connection", connection.connection.driver_connection)
