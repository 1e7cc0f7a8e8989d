"""SQLite: one thread writes and commits in groups, another reads beside it. Several writers would only wait for each other."""

import contextlib
import os
import sqlite3
import threading
import time
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, create_engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from turnwise.facts.errors import StoreCorrupt, StoreUnavailable
from turnwise.stores.sql import schema
from turnwise.stores.sql.calls import Call, Job
from turnwise.stores.sql.lanes import Lane
from turnwise.stores.sql.problems import problem

T = TypeVar("T")

GROUP = 256
"""The most calls in one transaction."""
BUSY_SECONDS = 5.0
MIGRATION_MILLISECONDS = 60_000


class SqliteExecutor:
    """Runs jobs on a SQLite database, a file or in memory. A write is durable when its call returns."""

    def __init__(self, url: URL) -> None:
        place = _Place(url)
        self._in_memory = place.in_memory
        self._ready = threading.Event()
        ready = self._ready
        self._writer = Lane("writer", lambda: _Writer(place, ready), batch=GROUP)
        self._reader = Lane("reader", lambda: _Reader(place), batch=GROUP)

    async def write(self, job: Job[T]) -> T:
        call = Call(job)
        self._writer.submit(call)
        return await call.future

    async def read(self, job: Job[T]) -> T:
        # Before the first write there may be no tables; a database in memory belongs to one connection.
        through_writer = self._in_memory or not self._ready.is_set()
        call = Call(job, reads=True)
        (self._writer if through_writer else self._reader).submit(call)
        return await call.future

    async def close(self) -> None:
        await self._reader.close()
        # The last connection to close folds the write-ahead log into the file.
        await self._writer.close()


class _Place:
    """Where the database is, and how to connect to it."""

    def __init__(self, url: URL) -> None:
        self.in_memory = url.database in {None, "", ":memory:"}
        if not self.in_memory:
            url = url.set(database=os.path.abspath(cast("str", url.database)))
        self.name = "the SQLite database in memory" if self.in_memory else cast("str", url.database)
        self._url = url.set(drivername="sqlite")

    def connect(self) -> Connection:
        # Transactions are begun and committed by us, not by the driver.
        timeout = {} if "timeout" in self._url.query else {"timeout": BUSY_SECONDS}
        engine = create_engine(
            self._url, poolclass=NullPool, isolation_level="AUTOCOMMIT", hide_parameters=True, connect_args=timeout
        )
        connection = engine.connect()
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")
        return connection

    def problem(self, error: Exception) -> Exception:
        return problem(self.name, error)


def _driver(connection: Connection) -> sqlite3.Connection:
    return cast("sqlite3.Connection", connection.connection.driver_connection)


class _Reader:
    """Reads on a connection of its own: it sees what is committed, and waits for no writer."""

    def __init__(self, place: _Place) -> None:
        self._place = place
        self._connection: Connection | None = None

    def serve(self, calls: list[Call[Any]]) -> None:
        for call in calls:
            try:
                connection = self._connected()
            except Exception as error:
                call.error = self._place.problem(error)
            else:
                _run(call, connection, self._place)
                self._connection = _unless_broken(call, connection)

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._place.connect()
            self._connection.exec_driver_sql("PRAGMA query_only = ON")
        return self._connection

    def close(self) -> None:
        _close(self._connection)


class _Writer:
    """Writes all waiting calls in one transaction: one commit, and one wait for the disk, for all of them."""

    def __init__(self, place: _Place, ready: threading.Event) -> None:
        self._place, self._ready = place, ready
        self._connection: Connection | None = None

    def serve(self, calls: list[Call[Any]]) -> None:
        try:
            connection = self._connected()
            self._write([call for call in calls if not call.reads], connection)
        except Exception as error:
            for call in calls:
                call.error = self._place.problem(error)
            self._disconnect()
            return
        for call in calls:
            if call.reads:
                _run(call, connection, self._place)
        if not self._place.in_memory and any(_is_broken(call) for call in calls):
            self._disconnect()

    def _write(self, calls: list[Call[Any]], connection: Connection) -> None:
        driver = _driver(connection)
        if len(calls) > 1 and self._write_group(calls, connection, driver):
            return
        for call in calls:
            self._write_alone(call, connection, driver)

    def _write_group(self, calls: list[Call[Any]], connection: Connection, driver: sqlite3.Connection) -> bool:
        """One transaction for all; False when it was lost, then nothing is stored and each call is to be tried alone."""
        driver.execute("BEGIN IMMEDIATE")
        try:
            for call in calls:
                driver.execute("SAVEPOINT one_call")
                if not _run(call, connection, self._place):
                    # Full disks and the like end the whole transaction: then this raises.
                    driver.execute("ROLLBACK TO one_call")
                driver.execute("RELEASE one_call")
            driver.execute("COMMIT")
        except sqlite3.Error:
            _roll_back(driver)
            return False
        return True

    def _write_alone(self, call: Call[Any], connection: Connection, driver: sqlite3.Connection) -> None:
        try:
            driver.execute("BEGIN IMMEDIATE")
            if _run(call, connection, self._place):
                driver.execute("COMMIT")
                return
        except sqlite3.Error as error:
            call.error = self._place.problem(error)
        _roll_back(driver)

    def _connected(self) -> Connection:
        if self._connection is None:
            connection = self._place.connect()
            try:
                if not self._place.in_memory:
                    _write_ahead(connection)
                connection.exec_driver_sql("PRAGMA synchronous = FULL")
                _prepare(connection, self._place.name)
            except BaseException:
                _close(connection)
                raise
            self._connection = connection
            self._ready.set()
        return self._connection

    def _disconnect(self) -> None:
        # A database in memory is gone with its connection: whatever happened, it is kept.
        if not self._place.in_memory:
            _close(self._connection)
            self._connection = None

    def close(self) -> None:
        _close(self._connection)


def _write_ahead(connection: Connection) -> None:
    """Lets readers go on beside the writer. Two processes that switch at once can lock each other out: then again."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            return
        except DBAPIError as error:
            if getattr(error.orig, "sqlite_errorcode", None) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.02)


def _prepare(connection: Connection, place: str) -> None:
    """Brings the tables to this version. Whoever comes second waits for the first, and finds the work done."""
    if schema.is_current(connection):
        return
    driver = _driver(connection)
    (patience,) = driver.execute("PRAGMA busy_timeout").fetchone()
    driver.execute(f"PRAGMA busy_timeout = {MIGRATION_MILLISECONDS}")
    driver.execute("BEGIN IMMEDIATE")
    try:
        schema.migrate(connection, place)
        driver.execute("COMMIT")
    except BaseException:
        _roll_back(driver)
        raise
    finally:
        driver.execute(f"PRAGMA busy_timeout = {patience}")


def _run(call: Call[Any], connection: Connection, place: _Place) -> bool:
    if call.run(connection):
        return True
    assert call.error is not None
    translated = place.problem(call.error)
    if translated is not call.error:
        translated.__cause__ = call.error
        call.error = translated
    return False


def _is_broken(call: Call[Any]) -> bool:
    """Whether the connection is better made anew after this."""
    return isinstance(call.error, StoreCorrupt | StoreUnavailable)


def _unless_broken(call: Call[Any], connection: Connection) -> Connection | None:
    if not _is_broken(call):
        return connection
    _close(connection)
    return None


def _roll_back(driver: sqlite3.Connection) -> None:
    if driver.in_transaction:
        driver.execute("ROLLBACK")


def _close(connection: Connection | None) -> None:
    if connection is not None:
        with contextlib.suppress(DBAPIError, sqlite3.Error):
            connection.close()
