"""PostgreSQL: a few threads with a connection each, one transaction for a call."""

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
from turnwise.stores.sql.threads import PATIENCE, Call, Deadlines, Job, WorkerPool, backoff

T = TypeVar("T")

CONNECTIONS = 8
CONNECT_SECONDS = 5
IDLE_SECONDS = 10
MIGRATION_LOCK = 7_236_112_004_871
"""Any number, as long as every Turnwise takes the same one."""


class PostgresExecutor:
    """Runs jobs on a PostgreSQL database. A write is durable when its call returns.

    What may pass is ridden out: a job runs again, after growing pauses, while the server is away, restarts, has no
    connection left, or lets its transaction collide with another. It also runs again when the connection was lost while it
    committed, and must then find what it stored, unless it is not `repeatable`. StoreUnavailable after `patience` seconds.
    """

    def __init__(self, url: URL, *, patience: float = PATIENCE) -> None:
        place = _PostgresDatabase(url, patience)
        self._lane = WorkerPool("postgresql", lambda: _Worker(place), watch=Deadlines(place), width=CONNECTIONS)

    async def write(self, job: Job[T], *, repeatable: bool = True) -> T:
        call = Call(job, repeatable=repeatable)
        self._lane.submit(call)
        return await call.future

    async def read(self, job: Job[T]) -> T:
        return await self.write(job)

    async def close(self) -> None:
        await self._lane.close()


class _PostgresDatabase(Database):
    """How to connect to the database, and whether its tables are known to be current."""

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
        try:
            return create_engine(
                self._url, poolclass=NullPool, hide_parameters=True, use_native_hstore=False, connect_args=self._arguments()
            )
        except ModuleNotFoundError as error:
            raise MissingExtra("PostgreSQL", "postgres") from error

    def _arguments(self) -> dict[str, Any]:
        """What libpq and the server are told, unless the URL says something else."""
        patience = max(1, round(self.patience * 1000))
        options = {
            # So that a transaction somebody forgot becomes an error and not a standstill.
            "lock_timeout": f"{max(1, patience // 3)}ms",
            # So that a process of ours that stands still keeps nobody else from its rows for long.
            "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
            "tcp_keepalives_idle": "60",
        }
        # A network that swallows everything is noticed by these; a Unix socket does not mind them.
        alive = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": patience}
        arguments: dict[str, Any] = {"client_encoding": "utf8", "connect_timeout": CONNECT_SECONDS, **alive}
        arguments["options"] = " ".join(f"-c {name}={value}" for name, value in options.items())
        return {name: value for name, value in arguments.items() if name not in self._url.query}

    def prepare(self, connection: Connection, migrating: Callable[[], object]) -> None:
        """Brings the tables to this version. Whoever comes second waits for the first, and finds the work done."""
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
        with connection.begin():
            connection.execute(text("SET LOCAL lock_timeout = '60s'"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
            schema.migrate(connection, self.name)


class _CancellableConnection:
    """A connection that another thread can cut: then whoever waits for an answer on it gets an error at once."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._lock = threading.Lock()
        self._socket = _duplicate_socket(connection)
        self._serves: Call[Any] | None = None

    def serve(self, call: Call[Any]) -> bool:
        """Begins a call, which is the one it is used for from now on; False when it is not to be begun."""
        with self._lock:
            self._serves = call
        return call.begin(partial(self.cut, call))

    def cut(self, call: Call[Any]) -> None:
        """Cuts it, if that call is still the one it is used for."""
        with self._lock, contextlib.suppress(OSError):
            if self._serves is call and self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.connection.close()
        with self._lock:
            if self._socket is not None:
                self._socket.close()


def _duplicate_socket(connection: Connection) -> socket.socket | None:
    """The connection's socket under a number of our own, which belongs to nobody else while it is open."""
    driver: Any = connection.connection.driver_connection
    try:
        return socket.fromfd(driver.fileno(), socket.AF_INET, socket.SOCK_STREAM)
    except Exception:
        # It was lost already, as the first statement will say better.
        return None


class _Worker:
    def __init__(self, place: _PostgresDatabase) -> None:
        self._place = place
        self._line: _CancellableConnection | None = None

    def serve(self, calls: list[Call[Any]]) -> None:
        for call in calls:
            pausing: Iterator[float] | None = None
            # Without a loop there is nobody left who would end this.
            while self._must_repeat(call) and not call.loop.is_closed():
                pausing = pausing or backoff()
                time.sleep(next(pausing))

    def _must_repeat(self, call: Call[Any]) -> bool:
        """Tries it. True when it failed, stored nothing or may store it again, and may succeed next time."""
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
            if is_connection_lost(error) and not call.repeatable:
                call.error = self._place.uncertain(error)
                return False
            return self._failed(call, error)
        self._place.trouble = None
        return False

    def _do(self, call: Call[Any]) -> RootTransaction | None:
        """All but the commit; None when the caller was told meanwhile that it failed, then nothing of it stays."""
        if self._line is None:
            if not call.begin():
                return None
            self._line = _CancellableConnection(self._place.connect())
        line = self._line
        if not line.serve(call):
            return None
        if not self._place.is_prepared:
            # A migration may take longer than any call waits: whoever gave up on it must not cut it off.
            self._place.prepare(line.connection, migrating=call.begin)
            if not line.serve(call):
                return None
        transaction = line.connection.begin()
        if not call.run(line.connection):
            assert call.error is not None
            raise call.error
        if call.begin_commit():
            return transaction
        self._roll_back()
        return None

    def _failed(self, call: Call[Any], error: Exception) -> bool:
        if is_connection_lost(error):
            self._disconnect()
        else:
            self._roll_back()
        call.error = self._place.translated(error)
        if not is_transient(error):
            return False
        call.trouble = call.error
        # Whoever was given up on was cut off: that is no trouble of the place.
        if not call.overdue:
            self._place.note(call.error)
        return True

    def _roll_back(self) -> None:
        transaction = self._line.connection.get_transaction() if self._line else None
        if transaction is not None:
            try:
                transaction.rollback()
            except DBAPIError:
                self._disconnect()

    def _disconnect(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def close(self) -> None:
        self._disconnect()
