"""Prepared statements of the hot path: SQLAlchemy compiles them once, and on SQLite the driver runs them directly."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, CompoundSelect, Connection, Select, bindparam
from sqlalchemy.sql.dml import UpdateBase

_LEAST_SIZE = 8


class _Prepared(NamedTuple):
    """A compiled statement."""

    text: str
    names: tuple[str, ...]
    """Its parameters in order."""
    fixed: dict[str, Any]
    """The parameter values that the statement itself brings."""

    def values(self, params: dict[str, Any]) -> list[Any]:
        values_ = self.fixed | params
        return [values_[name] for name in self.names]


class PreparedStatement:
    """A statement with named parameters of plain types; its rows are tuples.

    On PostgreSQL it runs like any other statement: the saving is small next to the round trip.
    """

    def __init__(self, statement: Select[Any] | CompoundSelect[Any] | UpdateBase) -> None:
        self._statement = statement
        self._sqlite: _Prepared | None = None

    def rows(self, connection: Connection, values: dict[str, Any]) -> Sequence[Sequence[Any]]:
        """Executes it and returns all rows."""
        if connection.dialect.name != "sqlite":
            return connection.execute(self._statement, values).all()
        prepared = self._sqlite or self._prepare(connection)
        return _driver(connection).execute(prepared.text, prepared.values(values)).fetchall()

    def each(self, connection: Connection, values: dict[str, Any]) -> Iterator[Sequence[Any]]:
        """Executes it and yields the rows. On SQLite each is read when it is wanted, so large ones do not add up."""
        if connection.dialect.name != "sqlite":
            yield from connection.execute(self._statement, values)
            return
        prepared = self._sqlite or self._prepare(connection)
        yield from _driver(connection).execute(prepared.text, prepared.values(values))

    def row(self, connection: Connection, values: dict[str, Any]) -> Sequence[Any] | None:
        """Executes it and returns the first row, or None."""
        rows = self.rows(connection, values)
        return rows[0] if rows else None

    def run_many(self, connection: Connection, many: list[dict[str, Any]]) -> int:
        """Executes it once for each item of `many`, and returns how many rows it changed."""
        if connection.dialect.name != "sqlite":
            return connection.execute(self._statement, many).rowcount
        prepared = self._sqlite or self._prepare(connection)
        return _driver(connection).executemany(prepared.text, [prepared.values(values) for values in many]).rowcount

    def _prepare(self, connection: Connection) -> _Prepared:
        compiled = self._statement.compile(dialect=connection.dialect)
        fixed = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
        self._sqlite = _Prepared(str(compiled), tuple(compiled.positiontup or ()), fixed)
        return self._sqlite


class PreparedLookup:
    """A statement that looks up a list of values; prepared once for each size of list, which are powers of two."""

    def __init__(self, statement: Select[Any], column: ColumnElement[Any]) -> None:
        self._statement, self._column = statement, column
        self._by_size: dict[int, PreparedStatement] = {}

    def rows(self, connection: Connection, values: dict[str, Any], wanted: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """Returns the rows whose column has one of the wanted values; none for an empty list."""
        if not wanted:
            return ()
        size = max(_LEAST_SIZE, 1 << (len(wanted) - 1).bit_length())
        # The first value fills up: to look it up again changes nothing.
        listed = {f"wanted{place}": wanted[place if place < len(wanted) else 0] for place in range(size)}
        if size not in self._by_size:
            statement = self._statement.where(self._column.in_([bindparam(name) for name in listed]))
            self._by_size[size] = PreparedStatement(statement)
        return self._by_size[size].rows(connection, values | listed)


def _driver(connection: Connection) -> sqlite3.Connection:
    return cast("sqlite3.Connection", connection.connection.driver_connection)
