"""Statements of every turn: SQLAlchemy writes their SQL once, and SQLite's driver runs it without going through it again."""

import sqlite3
from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import Connection, Executable


class Hot:
    """A prepared statement. Its rows are tuples, its parameters plain numbers and texts.

    On PostgreSQL it is executed as any other: there the network costs more than what this saves.
    """

    def __init__(self, statement: Executable) -> None:
        self._statement = statement
        self._prepared: tuple[str, tuple[str, ...], dict[str, Any]] | None = None

    def rows(self, connection: Connection, values: dict[str, Any]) -> Sequence[Sequence[Any]]:
        """Executes it; gives all its rows."""
        if connection.dialect.name != "sqlite":
            return connection.execute(self._statement, values).all()
        text, names, fixed = self._prepared or self._prepare(connection)
        driver = cast("sqlite3.Connection", connection.connection.driver_connection)
        values = fixed | values
        return driver.execute(text, [values[name] for name in names]).fetchall()

    def each(self, connection: Connection, many: list[dict[str, Any]]) -> None:
        """Executes it once for each of `many`."""
        if connection.dialect.name != "sqlite":
            connection.execute(self._statement, many)
            return
        text, names, fixed = self._prepared or self._prepare(connection)
        driver = cast("sqlite3.Connection", connection.connection.driver_connection)
        filled = (fixed | values for values in many)
        driver.executemany(text, [[values[name] for name in names] for values in filled])

    def _prepare(self, connection: Connection) -> tuple[str, tuple[str, ...], dict[str, Any]]:
        compiled = self._statement.compile(dialect=connection.dialect)  # type: ignore[attr-defined]
        names = tuple(compiled.positiontup)
        fixed = {name: value for name, value in compiled.params.items() if value is not None}
        self._prepared = (str(compiled), names, fixed)
        return self._prepared
