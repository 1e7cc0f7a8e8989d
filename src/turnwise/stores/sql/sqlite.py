"""The SQLite executor: one thread writes and commits calls in groups, another one reads beside it. Also backups of the file."""

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, create_engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from turnwise.facts.errors import ConfigError, StoreCorrupt, StoreUnavailable
from turnwise.stores.sql import schema
from turnwise.stores.sql.errors import Database, is_busy
from turnwise.stores.sql.worker_pool import PATIENCE, Call, Deadlines, Job, WorkerPool

T = TypeVar("T")

BEGIN = "BEGIN IMMEDIATE"
LARGE_CHECKPOINT_PAGES = 500
"""Half of what the writer lets the log grow to before it makes a checkpoint."""
GROUP_SIZE = 256
"""Most calls in one transaction."""
BUSY_TIMEOUT_SECONDS = 0.5
"""How long SQLite itself waits for a lock before the deadlines of the calls are checked."""
MIGRATION_SECONDS = 60.0


class SqliteExecutor:
    """Runs jobs on a SQLite database, in a file or in memory. A write is durable when its call returns.

    Another program's lock is waited for, for as long as the URL's `timeout` says. StoreUnavailable after `patience` seconds, or
    after `timeout` if that is longer.
    """

    def __init__(self, url: URL, *, patience: float = PATIENCE) -> None:
        # Two objects, because the trouble of one thread does not concern the other.
        writing, reading = _SqliteDatabase(url, patience), _SqliteDatabase(url, patience)
        self._separate = _SqliteDatabase(url, patience)
        self._in_memory = writing.in_memory
        self._ready = threading.Event()
        ready = self._ready
        self._writer = WorkerPool("writer", lambda: _Writer(writing, ready), batch=GROUP_SIZE, deadlines=Deadlines(writing))
        self._reader = WorkerPool("reader", lambda: _Reader(reading), batch=GROUP_SIZE, deadlines=Deadlines(reading))

    async def write(self, job: Job[T], *, repeatable: bool = True) -> T:
        call = Call(job, repeatable=repeatable)
        self._writer.submit(call)
        return await call.future

    async def read(self, job: Job[T]) -> T:
        # There may be no tables before the first write. An in-memory database has one connection.
        through_writer = self._in_memory or not self._ready.is_set()
        call = Call(job, reads=True)
        (self._writer if through_writer else self._reader).submit(call)
        return await call.future

    def separate_connection(self, *, large: bool = False) -> "_SeparateConnection | None":
        return None if self._in_memory else _SeparateConnection(self._separate, LARGE_CHECKPOINT_PAGES if large else 0)

    async def close(self) -> None:
        await self._reader.close()
        # The last connection to close merges the write-ahead log into the file.
        await self._writer.close()


class _SqliteDatabase(Database):
    """Connects to the database and knows how long its locks are waited for."""

    def __init__(self, url: URL, patience: float) -> None:
        self.in_memory = url.database in {None, "", ":memory:"}
        if not self.in_memory:
            url = url.set(database=os.path.abspath(cast("str", url.database)))
        self.lock_seconds = _timeout(url, patience)
        name = "the SQLite database in memory" if self.in_memory else cast("str", url.database)
        super().__init__(name, max(patience, self.lock_seconds))
        self._url = url.set(drivername="sqlite").difference_update_query(["timeout"])

    def connect(self) -> Connection:
        """Opens a connection with foreign keys on. SQLite waits for locks only briefly."""
        # The writer begins and commits transactions itself, not through the driver.
        patience = {"timeout": min(self.lock_seconds, self.patience / 4, BUSY_TIMEOUT_SECONDS)}
        engine = create_engine(
            self._url, poolclass=NullPool, isolation_level="AUTOCOMMIT", hide_parameters=True, connect_args=patience
        )
        connection = engine.connect()
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")
        return connection

    def retry_while_locked(self, work: Callable[[], object], calls: list[Call[Any]], *, seconds: float) -> None:
        """Runs `work` and retries while another program holds the lock. Raises after `seconds`, or when all calls have timed
        out.
        """
        until = time.monotonic() + seconds
        while True:
            try:
                work()
                break
            except (sqlite3.Error, DBAPIError) as error:
                if not is_busy(error):
                    raise
                self.record_trouble(self.translate(error))
                if time.monotonic() >= until or all(call.overdue for call in calls):
                    raise
                # SQLite itself does not wait for every lock.
                time.sleep(0.02)
        self.trouble = None


def _timeout(url: URL, default: float) -> float:
    """Returns the seconds of the URL's `timeout`. Raises ConfigError."""
    configured = url.query.get("timeout", default)
    try:
        seconds = float(cast("str", configured))
    except (TypeError, ValueError):
        seconds = -1.0
    if not seconds >= 0:
        fix = "Write it as in sqlite:///file.db?timeout=5."
        raise ConfigError(f"The timeout {configured!r} of the SQLite database is no number of seconds.", fix=fix)
    return seconds


def _driver(connection: Connection) -> sqlite3.Connection:
    return cast("sqlite3.Connection", connection.connection.driver_connection)


class _Reader:
    """Reads on a separate connection. It sees committed data and waits for no writer."""

    def __init__(self, database: _SqliteDatabase) -> None:
        self._database = database
        self._connection: Connection | None = None

    def serve(self, calls: list[Call[Any]]) -> None:
        """Runs the calls one after the other on a read-only connection."""
        for call in calls:
            try:
                self._database.retry_while_locked(partial(self._read, call), [call], seconds=self._database.lock_seconds)
            except Exception as error:
                call.error = self._database.translate(error)
                if _must_reconnect(call):
                    self.close()

    def _read(self, call: Call[Any]) -> None:
        """Runs one call, unless its caller has gone."""
        if call.begin():
            if self._connection is None:
                self._connection = self._database.connect()
                self._connection.exec_driver_sql("PRAGMA query_only = ON")
            if not call.run(self._connection):
                assert call.error is not None
                raise call.error

    def close(self) -> None:
        _close(self._connection)
        self._connection = None


class _Writer:
    """Writes all waiting calls in one transaction, so that one commit and one disk sync serve them all."""

    def __init__(self, database: _SqliteDatabase, ready: threading.Event) -> None:
        self._database, self._ready = database, ready
        self._connection: Connection | None = None

    def serve(self, calls: list[Call[Any]]) -> None:
        """Commits the writing calls as a group, then runs the reading ones. Connects first if necessary."""
        try:
            if self._connection is None:
                self._database.retry_while_locked(self._connect, calls, seconds=MIGRATION_SECONDS)
            assert self._connection is not None
            self._write([call for call in calls if not call.reads], self._connection)
        except Exception as error:
            for call in calls:
                call.error = self._database.translate(error)
            if not is_busy(error):
                self._disconnect()
            return
        for call in calls:
            if call.reads and call.begin():
                _run(call, self._connection, self._database)
        if not self._database.in_memory and any(_must_reconnect(call) for call in calls):
            self._disconnect()

    def _write(self, calls: list[Call[Any]], connection: Connection) -> None:
        driver = _driver(connection)
        if len(calls) > 1 and self._write_group(calls, connection, driver):
            return
        for call in calls:
            self._write_alone(call, connection, driver)

    def _write_group(self, calls: list[Call[Any]], connection: Connection, driver: sqlite3.Connection) -> bool:
        """Writes all calls in one transaction.

        Returns:
            False when the transaction was lost: nothing is stored, and each call is to be tried alone.
        """
        self._begin(calls, driver)
        try:
            running = [call for call in calls if call.begin()]
            for call in running:
                driver.execute("SAVEPOINT one_call")
                if not _run(call, connection, self._database):
                    # An error such as a full disk ends the whole transaction; then this raises.
                    driver.execute("ROLLBACK TO one_call")
                driver.execute("RELEASE one_call")
            # All are marked before any flag is read: a caller that was told of a failure finds nothing stored later.
            may_commit = [call.begin_commit() for call in running]
            if not all(may_commit):
                _roll_back(driver)
                return False
            driver.execute("COMMIT")
        except sqlite3.Error:
            _roll_back(driver)
            return False
        return True

    def _write_alone(self, call: Call[Any], connection: Connection, driver: sqlite3.Connection) -> None:
        """Runs one call in a separate transaction."""
        if call.overdue:
            return
        try:
            self._begin([call], driver)
            if call.begin() and _run(call, connection, self._database) and call.begin_commit():
                driver.execute("COMMIT")
                return
        except sqlite3.Error as error:
            call.error = self._database.translate(error)
        _roll_back(driver)

    def _begin(self, calls: list[Call[Any]], driver: sqlite3.Connection) -> None:
        """Begins a transaction, and tries again while another program has the lock."""
        try:
            driver.execute(BEGIN)
        except sqlite3.Error:
            self._database.retry_while_locked(partial(driver.execute, BEGIN), calls, seconds=self._database.lock_seconds)
        else:
            self._database.trouble = None

    def _connect(self) -> None:
        """Opens the connection, sets the journal, and creates or migrates the tables."""
        connection = self._database.connect()
        try:
            if not self._database.in_memory:
                # Readers do not block the writer, nor it them.
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            connection.exec_driver_sql("PRAGMA synchronous = FULL")
            _prepare(connection, self._database.name)
        except BaseException:
            _close(connection)
            raise
        self._connection = connection
        self._ready.set()

    def _disconnect(self) -> None:
        # An in-memory database is lost with its connection, so the connection stays open.
        if not self._database.in_memory:
            _close(self._connection)
            self._connection = None

    def close(self) -> None:
        _close(self._connection)


class _SeparateConnection:
    """Writes replaceable rows; small ones without waiting for the disk.

    Args:
        database: The database.
        checkpoint_pages: It moves the write-ahead log into the file when the log has this many pages; 0 = never.
    """

    def __init__(self, database: _SqliteDatabase, checkpoint_pages: int) -> None:
        self._database, self._checkpoint_pages = database, checkpoint_pages
        self._connection: Connection | None = None

    def run(self, job: Job[T]) -> T:
        """Runs a job in a transaction on this connection. Its commits do not wait for the disk, but for checkpoints."""
        if self._connection is None:
            self._connection = self._database.connect()
            # Checkpoints of small rows are the writer's. Those of large ones would hold up its next commit.
            self._connection.exec_driver_sql("PRAGMA synchronous = NORMAL")
            self._connection.exec_driver_sql(f"PRAGMA wal_autocheckpoint = {self._checkpoint_pages}")
        driver = _driver(self._connection)
        try:
            driver.execute(BEGIN)
            result = job(self._connection)
            driver.execute("COMMIT")
        except BaseException as error:
            if not is_busy(error):
                self.close()
            elif driver.in_transaction:
                _roll_back(driver)
            raise
        return result

    def close(self) -> None:
        _close(self._connection)
        self._connection = None


def _prepare(connection: Connection, database: str) -> None:
    """Migrates the tables to the current schema. A second process waits for the first and finds the work done."""
    if schema.is_current(connection):
        return
    _in_transaction(connection, lambda: schema.migrate(connection, database))
    while _in_transaction(connection, lambda: schema.move_some(connection)):
        continue


def _in_transaction(connection: Connection, work: Callable[[], T]) -> T:
    """Runs the work in a transaction; rolls it back after an error."""
    driver = _driver(connection)
    driver.execute(BEGIN)
    try:
        done = work()
        driver.execute("COMMIT")
    except BaseException:
        _roll_back(driver)
        raise
    return done


def _run(call: Call[Any], connection: Connection, database: _SqliteDatabase) -> bool:
    if call.run(connection):
        return True
    assert call.error is not None
    call.error = database.translate(call.error)
    return False


def _must_reconnect(call: Call[Any]) -> bool:
    """Returns whether the connection should be replaced after this call."""
    error = call.error
    return isinstance(error, StoreCorrupt | StoreUnavailable) and not is_busy(error.__cause__)


def _roll_back(driver: sqlite3.Connection) -> None:
    if driver.in_transaction:
        driver.execute("ROLLBACK")


def _close(connection: Connection | None) -> None:
    if connection is not None:
        with contextlib.suppress(DBAPIError, sqlite3.Error):
            connection.close()


def database_file(url: URL) -> Path:
    """Returns the file of a SQLite database.

    Raises:
        ConfigError: The database is not a SQLite file.
    """
    if not url.drivername.startswith("sqlite"):
        raise ConfigError("Only a SQLite store can be copied to a file.", fix="Use pg_dump and pg_restore for PostgreSQL.")
    if url.database in {None, "", ":memory:"}:
        raise ConfigError("A store in memory cannot be copied to a file.", fix="Use store: sqlite:///file.db")
    return Path(str(url.database)).absolute()


def back_up(url: URL, target: Path) -> None:
    """Copies the database as it is at one moment. In the write-ahead mode, writers go on meanwhile."""
    source = database_file(url)
    if not source.exists():
        raise StoreUnavailable(f"There is no database {source}.", fix="Check `store` in the configuration.")
    try:
        with closing(sqlite3.connect(source)) as connection, closing(sqlite3.connect(target)) as copy:
            # All pages in one step: the copy is one snapshot, and does not begin again when another process writes.
            connection.backup(copy)
            # One file, without a write-ahead log beside it.
            copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise StoreUnavailable(
            f"The database {source} cannot be copied: {error}.", fix="Check the disk and try again."
        ) from error
    _check_copy(target)


def empty_place(url: URL) -> Path:
    """Returns the database's file, which does not exist. Raises ConfigError if it does."""
    file = database_file(url)
    for path in (file, file.with_name(f"{file.name}-wal")):
        if path.exists():
            raise ConfigError(f"{path} exists; a restore overwrites nothing.", fix="Move it away, or name another store.")
    return file


def restore(url: URL, source: Path) -> None:
    """Moves a checked copy to the database's place, on the same disk."""
    place = empty_place(url)
    _check_copy(source)
    os.replace(source, place)


def _check_copy(file: Path) -> None:
    """Raises StoreCorrupt if SQLite finds damage in the copy."""
    try:
        with closing(sqlite3.connect(file)) as connection:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        found = str(error)
    if found != "ok":
        raise StoreCorrupt(f"The copy of the database is damaged: {found}.", fix="Use another backup.")
