"""Prepared statements of the hot path: SQLAlchemy compiles them once, and the driver runs them directly."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, CompoundSelect, Connection, Select, bindparam
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.dml import UpdateBase

_LEAST_SIZE = 8
_CURSOR = "turnwise_cursor"
_FEW_ROWS = 4
"""A cursor of PostgreSQL holds its last result, so it is reused only after a result of at most that many rows."""


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
    """A statement with named parameters of plain types; its rows are tuples."""

    def __init__(self, statement: Select[Any] | CompoundSelect[Any] | UpdateBase) -> None:
        self._statement = statement
        self._by_dialect: dict[str, _Prepared] = {}

    def rows(self, connection: Connection, values: dict[str, Any]) -> Sequence[Sequence[Any]]:
        """Executes it and returns all rows."""
        if connection.dialect.name != "sqlite":
            prepared = self._prepared(connection)
            return _run_on_postgresql(connection, prepared.text, prepared.fixed | values)[0]
        prepared = self._prepared(connection)
        return _driver(connection).execute(prepared.text, prepared.values(values)).fetchall()

    def stream(self, connection: Connection, values: dict[str, Any]) -> Iterator[Sequence[Any]]:
        """Executes it and yields the rows. SQLite reads each row on demand, which bounds memory; PostgreSQL reads all first."""
        if connection.dialect.name != "sqlite":
            yield from connection.execute(self._statement, values)
            return
        prepared = self._prepared(connection)
        yield from _driver(connection).execute(prepared.text, prepared.values(values))

    def row(self, connection: Connection, values: dict[str, Any]) -> Sequence[Any] | None:
        """Executes it and returns the first row, or None."""
        rows = self.rows(connection, values)
        return rows[0] if rows else None

    def run_many(self, connection: Connection, many: list[dict[str, Any]]) -> int:
        """Executes it once for each item of `many`, and returns how many rows it changed."""
        if connection.dialect.name != "sqlite":
            if len(many) == 1:  # SQLAlchemy takes three times as long
                prepared = self._prepared(connection)
                return _run_on_postgresql(connection, prepared.text, prepared.fixed | many[0])[1]
            return connection.execute(self._statement, many).rowcount if many else 0
        prepared = self._prepared(connection)
        return _driver(connection).executemany(prepared.text, [prepared.values(values) for values in many]).rowcount

    def _prepared(self, connection: Connection) -> _Prepared:
        return self._by_dialect.get(connection.dialect.name) or self._compile(connection)

    def _compile(self, connection: Connection) -> _Prepared:
        compiled = self._statement.compile(dialect=connection.dialect)
        fixed = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
        prepared = _Prepared(str(compiled), tuple(compiled.positiontup or ()), fixed)
        self._by_dialect[connection.dialect.name] = prepared
        return prepared


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


def _run_on_postgresql(connection: Connection, text: str, values: dict[str, Any]) -> tuple[Sequence[Sequence[Any]], int]:
    """Executes a statement on the driver's cursor, which is kept with the connection.

    Returns all rows, and the number of rows that were read or changed.

    Raises the errors of SQLAlchemy.
    """
    info: dict[Any, Any] = connection.info
    cursor: Any = info.pop(_CURSOR, None) or connection.connection.cursor()
    try:
        cursor.execute(text, values)
        rows: Sequence[Sequence[Any]] = cursor.fetchall() if cursor.description is not None else ()
        count: int = cursor.rowcount
    except Exception as error:
        raise _error_of(connection, text, error) from error
    if len(rows) <= _FEW_ROWS:
        info[_CURSOR] = cursor
    return rows, count


def _error_of(connection: Connection, text: str, error: Exception) -> BaseException:
    """Returns the error that SQLAlchemy raises for an error of the driver."""
    dialect = connection.dialect
    base = dialect.loaded_dbapi.Error
    if not isinstance(error, base):
        return error
    is_lost = dialect.is_disconnect(error, connection.connection.dbapi_connection, None)
    if is_lost:
        connection.invalidate(error)
    return DBAPIError.instance(text, None, error, base, hide_parameters=True, connection_invalidated=is_lost, dialect=dialect)


def _driver(connection: Connection) -> sqlite3.Connection:
    return cast("sqlite3.Connection", connection.connection.driver_connection)
