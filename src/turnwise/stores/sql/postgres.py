"""The PostgreSQL executor: a few threads with a connection each, one transaction per call."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, RootTransaction, create_engine, text
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from turnwise.facts.errors import MissingExtra
from turnwise.stores.sql import schema
from turnwise.stores.sql.errors import Database, is_connection_lost, is_transient
from turnwise.stores.sql.worker_pool import PATIENCE, Call, Deadlines, Job, WorkerPool, backoff

T = TypeVar("T")

CONNECTIONS = 8
CONNECT_SECONDS = 5
IDLE_SECONDS = 10
SEPARATE_PATIENCE = 2.0
"""How many seconds a heartbeat waits for locks and for the network."""
MIGRATION_LOCK = 7_236_112_004_871
"""Key of the advisory lock for migrations; the same in every Turnwise process."""


class PostgresExecutor:
    """Runs jobs on a PostgreSQL database. A write is durable when its call returns.

    Transient errors are retried with growing pauses: the server is unreachable or restarting, has no free connection, or a
    transaction collides with another. A job also runs again when the connection was lost during its commit. It must then find
    what it stored, unless it is not `repeatable`. StoreUnavailable after `patience` seconds.
    """

    def __init__(self, url: URL, *, patience: float = PATIENCE) -> None:
        self._url = url
        database = _PostgresDatabase(url, patience)
        self._pool = WorkerPool("postgresql", lambda: _Worker(database), deadlines=Deadlines(database), width=CONNECTIONS)

    async def write(self, job: Job[T], *, repeatable: bool = True) -> T:
        return await self._submit(Call(job, repeatable=repeatable))

    async def read(self, job: Job[T]) -> T:
        return await self._submit(Call(job, reads=True))

    async def _submit(self, call: Call[T]) -> T:
        self._pool.submit(call)
        return await call.future

    def separate_connection(self) -> "_SeparateConnection":
        return _SeparateConnection(_PostgresDatabase(self._url, SEPARATE_PATIENCE))

    async def close(self) -> None:
        await self._pool.close()


class _PostgresDatabase(Database):
    """Connects to the database and remembers whether its tables are current."""

    def __init__(self, url: URL, patience: float) -> None:
        shown = url.set(drivername="postgresql", query={}).render_as_string(hide_password=True)
        super().__init__(f"the PostgreSQL database {shown}", patience)
        self._url = url.set(drivername="postgresql+psycopg")
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self.is_prepared = False

    def connect(self) -> Connection:
        with self._lock:
            if self._engine is None:
                self._engine = self._make_engine()
        return self._engine.connect()

    def _make_engine(self) -> Engine:
        """Makes SQLAlchemy's engine without a pool. Raises MissingExtra."""
        try:
            return create_engine(
                self._url, poolclass=NullPool, hide_parameters=True, use_native_hstore=False, connect_args=self._arguments()
            )
        except ModuleNotFoundError as error:
            raise MissingExtra("PostgreSQL", "postgres") from error

    def _arguments(self) -> dict[str, Any]:
        """Returns the options for libpq and the server, except those that the URL sets."""
        patience = max(1, round(self.patience * 1000))
        options = {
            # A forgotten transaction of another program becomes an error instead of a hang.
            "lock_timeout": f"{max(1, patience // 3)}ms",
            # A suspended process does not keep its row locks for long.
            "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
            "tcp_keepalives_idle": "60",
        }
        # These detect a network that drops all packets; Unix sockets ignore them.
        alive = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": patience}
        arguments: dict[str, Any] = {"client_encoding": "utf8", "connect_timeout": CONNECT_SECONDS, **alive}
        arguments["options"] = " ".join(f"-c {name}={value}" for name, value in options.items())
        return {name: value for name, value in arguments.items() if name not in self._url.query}

    def prepare(self, connection: Connection, migrating: Callable[[], object]) -> None:
        """Migrates the tables to the current schema. A second process waits for the first and finds the work done."""
        with self._lock:
            if self.is_prepared:
                return
            with connection.begin():
                current = schema.is_current(connection)
            if not current:
                migrating()
                self._migrate(connection)
            self.is_prepared = True

    def _migrate(self, connection: Connection) -> None:
        """Migrates the tables under a lock, one process at a time, then moves rows of old tables in short transactions."""
        with connection.begin():
            connection.execute(text("SET LOCAL lock_timeout = '60s'"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
            schema.migrate(connection, self.name)
        more = True
        while more:
            with connection.begin():
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
                more = schema.move_some(connection)


class _CancellableConnection:
    """A connection that another thread can shut down. A pending read on it then fails at once."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._lock = threading.Lock()
        self._socket = _duplicate_socket(connection)
        self._current_call: Call[Any] | None = None

    def serve(self, call: Call[Any]) -> bool:
        """Assigns the connection to a call and begins it. False when the call must not begin."""
        with self._lock:
            self._current_call = call
        return call.begin(partial(self.interrupt, call))

    def begin(self, *, reads: bool) -> RootTransaction:
        """Begins a transaction. The server begins none for a read, which saves two of three round trips.

        Each statement of a read sees all that was committed before it, as in a transaction of READ COMMITTED.
        """
        driver: Any = self.connection.connection.driver_connection
        if driver.autocommit is not reads:
            driver.autocommit = reads
        return self.connection.begin()

    def interrupt(self, call: Call[Any]) -> None:
        """Shuts the connection down if it still serves this call."""
        with self._lock, contextlib.suppress(OSError):
            if self._current_call is call and self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.connection.close()
        with self._lock:
            if self._socket is not None:
                self._socket.close()


def _duplicate_socket(connection: Connection) -> socket.socket | None:
    """Returns a second handle of the connection's socket, so that its number is not reused while we hold it."""
    driver: Any = connection.connection.driver_connection
    try:
        return socket.fromfd(driver.fileno(), socket.AF_INET, socket.SOCK_STREAM)
    except Exception:
        # The connection is already lost; the first statement will report it.
        return None


class _Worker:
    def __init__(self, database: _PostgresDatabase) -> None:
        self._database = database
        self._connection: _CancellableConnection | None = None

    def serve(self, calls: list[Call[Any]]) -> None:
        """Runs the calls one after the other, and repeats each with growing pauses while its error is transient."""
        for call in calls:
            pausing: Iterator[float] | None = None
            # A closed loop has no waiting caller and no deadline.
            while self._must_repeat(call) and not call.loop.is_closed():
                pausing = pausing or backoff()
                time.sleep(next(pausing))

    def _must_repeat(self, call: Call[Any]) -> bool:
        """Tries the call once. Returns whether it should run again: a transient error, and nothing stored or safe to store
        again.
        """
        try:
            transaction = self._do(call)
            if transaction is None:
                return False
        except Exception as error:
            return self._failed(call, error)
        try:
            transaction.commit()
        except Exception as error:
            self._disconnect()
            if is_connection_lost(error):
                call.maybe_stored = True
                if not call.repeatable:
                    call.error = self._database.lost_in_commit(error)
                    return False
            return self._failed(call, error)
        self._database.trouble = None
        return False

    def _do(self, call: Call[Any]) -> RootTransaction | None:
        """Does everything but the commit. None when the caller timed out; then nothing is stored."""
        if self._connection is None:
            if not call.begin():
                return None
            self._connection = _CancellableConnection(self._database.connect())
        connection = self._connection
        if not connection.serve(call):
            return None
        if not self._database.is_prepared:
            # A migration may take longer than a call waits: a timeout must not interrupt it.
            self._database.prepare(connection.connection, migrating=call.begin)
            if not connection.serve(call):
                return None
        transaction = connection.begin(reads=call.reads)
        if not call.run(connection.connection):
            assert call.error is not None
            raise call.error
        if call.begin_commit():
            return transaction
        self._roll_back()
        return None

    def _failed(self, call: Call[Any], error: Exception) -> bool:
        """Notes a call's error and ends the transaction or the connection. Returns whether to run the call again."""
        if is_connection_lost(error):
            self._disconnect()
        else:
            self._roll_back()
        call.error = self._database.translate(error)
        if not is_transient(error):
            return False
        call.trouble = call.error
        # A timed-out call was interrupted by us: its error says nothing about the database.
        if not call.overdue:
            self._database.record_trouble(call.error)
        return True

    def _roll_back(self) -> None:
        """Rolls the open transaction back; a connection that fails to is closed."""
        transaction = self._connection.connection.get_transaction() if self._connection else None
        if transaction is not None:
            try:
                transaction.rollback()
            except DBAPIError:
                self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        self._disconnect()


class _SeparateConnection:
    """Writes small rows independently of the threads of the pool."""

    def __init__(self, database: _PostgresDatabase) -> None:
        self._database = database
        self._connection: Connection | None = None

    def run(self, job: Job[T]) -> T:
        """Runs a job in a transaction on this connection, which is closed after any error."""
        try:
            if self._connection is None:
                self._connection = self._database.connect()
            with self._connection.begin():
                return job(self._connection)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()
