"""PostgreSQL: a few threads with a connection each, one transaction for a call."""

import contextlib
import threading
import time
from typing import Any, TypeVar

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from turnwise.facts.errors import MissingExtra
from turnwise.stores.sql import schema
from turnwise.stores.sql.calls import Call, Job
from turnwise.stores.sql.lanes import Lane
from turnwise.stores.sql.problems import is_collision, is_lost, problem

T = TypeVar("T")

CONNECTIONS = 8
TRIES = 5
CONNECT_SECONDS = 10
LOCK_SECONDS = 10
# Any number, as long as every Turnwise takes the same one.
MIGRATION_LOCK = 7_236_112_004_871


class PostgresExecutor:
    """Runs jobs on a PostgreSQL database. A write is durable when its call returns.

    A job that collided with another transaction runs again, and so does one whose connection was lost before its commit.
    """

    def __init__(self, url: URL) -> None:
        place = _Place(url)
        self._lane = Lane("postgresql", lambda: _Worker(place), width=CONNECTIONS)

    async def write(self, job: Job[T]) -> T:
        call = Call(job)
        self._lane.submit(call)
        return await call.future

    async def read(self, job: Job[T]) -> T:
        return await self.write(job)

    async def close(self) -> None:
        await self._lane.close()


class _Place:
    """Where the database is, how to connect to it, and whether its tables are known to be current."""

    def __init__(self, url: URL) -> None:
        self.name = f"the PostgreSQL database {url.set(drivername='postgresql', query={}).render_as_string(hide_password=True)}"
        self._url = url.set(drivername="postgresql+psycopg")
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._current = False

    def connect(self) -> Connection:
        with self._lock:
            if self._engine is None:
                self._engine = self._make_engine()
        connection = self._engine.connect()
        try:
            with self._lock:
                if not self._current:
                    self._prepare(connection)
                    self._current = True
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_engine(self) -> Engine:
        arguments: dict[str, Any] = {"client_encoding": "utf8"}
        if "connect_timeout" not in self._url.query:
            arguments["connect_timeout"] = CONNECT_SECONDS
        if "options" not in self._url.query:
            # So that a transaction somebody forgot becomes an error and not a standstill.
            arguments["options"] = f"-c lock_timeout={LOCK_SECONDS}s"
        try:
            return create_engine(
                self._url, poolclass=NullPool, hide_parameters=True, use_native_hstore=False, connect_args=arguments
            )
        except ModuleNotFoundError as error:
            raise MissingExtra("PostgreSQL", "postgres") from error

    def _prepare(self, connection: Connection) -> None:
        """Brings the tables to this version. Whoever comes second waits for the first, and finds the work done."""
        with connection.begin():
            if schema.is_current(connection):
                return
            connection.execute(text("SET LOCAL lock_timeout = '60s'"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
            schema.migrate(connection, self.name)

    def problem(self, error: Exception) -> Exception:
        return problem(self.name, error)


class _Worker:
    def __init__(self, place: _Place) -> None:
        self._place = place
        self._connection: Connection | None = None

    def serve(self, calls: list[Call[Any]]) -> None:
        for call in calls:
            self._serve(call)

    def _serve(self, call: Call[Any]) -> None:
        for attempt in range(1, TRIES + 1):
            try:
                again = self._transact(call)
            except Exception as error:
                call.error, again = error, False
            if call.error is None:
                return
            if not again or attempt == TRIES:
                break
            time.sleep(0.01 * attempt)
        assert call.error is not None
        translated = self._place.problem(call.error)
        if translated is not call.error:
            translated.__cause__ = call.error
            call.error = translated

    def _transact(self, call: Call[Any]) -> bool:
        """One attempt; True when it failed, stored nothing, and may succeed if it is made again."""
        if self._connection is None:
            self._connection = self._place.connect()
        transaction = self._connection.begin()
        if call.run(self._connection):
            try:
                transaction.commit()
            except DBAPIError as error:
                # Whether a commit that lost its connection was done is unknown: never repeated here.
                call.error = error
                self._disconnect()
                return is_collision(error)
            return False
        assert call.error is not None
        lost = is_lost(call.error)
        if lost:
            self._disconnect()
        else:
            transaction.rollback()
        return lost or is_collision(call.error)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(DBAPIError):
                connection.close()

    def close(self) -> None:
        self._disconnect()
