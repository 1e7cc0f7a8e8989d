import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import psycopg
import pytest
from psycopg import errors
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from turnwise.facts.errors import StoreError, StoreUnavailable
from turnwise.stores.sql.postgres import CONNECTIONS, MIGRATION_LOCK, PostgresExecutor
from turnwise.testing.postgres import new_postgres_database

T = TypeVar("T")


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """Makes a call until it succeeds: on a machine with much to do, the short patience of these tests may not suffice."""
    while True:
        try:
            return await call()
        except StoreUnavailable:
            await asyncio.sleep(0.05)


@pytest.fixture
def executor() -> PostgresExecutor:
    return PostgresExecutor(make_url(new_postgres_database()))


def put(connection: Connection) -> None:
    connection.execute(text("INSERT INTO turnwise_app_state VALUES ('a', 'k', '1') ON CONFLICT DO NOTHING"))


def count(connection: Connection) -> Any:
    return connection.execute(text("SELECT count(*) FROM turnwise_app_state")).scalar()


class Fails:
    """Writes, and then fails so many times with that error."""

    def __init__(self, error: psycopg.Error, times: int) -> None:
        self.error, self.times, self.tries = error, times, 0

    def __call__(self, connection: Connection) -> int:
        self.tries += 1
        put(connection)
        if self.tries <= self.times:
            raise DBAPIError("SELECT 1", None, self.error)
        return self.tries


@pytest.mark.parametrize(
    "error",
    [
        errors.DeadlockDetected,
        errors.SerializationFailure,
        errors.LockNotAvailable,
        errors.AdminShutdown,
        errors.CannotConnectNow,
        errors.TooManyConnections,
        errors.ConnectionFailure,
        errors.IdleInTransactionSessionTimeout,
    ],
)
@pytest.mark.parametrize("repeatable", [True, False])
async def test_what_passes_is_tried_again(executor: PostgresExecutor, error: type[psycopg.Error], repeatable: bool) -> None:
    assert await executor.write(Fails(error("x"), 2), repeatable=repeatable) == 3
    assert await executor.read(count) == 1, "the tries before were rolled back"
    await executor.close()


async def test_tries_come_to_an_end() -> None:
    executor = PostgresExecutor(make_url(new_postgres_database()), patience=1.0)
    await insist(lambda: executor.read(count))
    job = Fails(errors.SerializationFailure("x"), 9999)
    with pytest.raises(StoreUnavailable, match=r"too busy: .* \(40001\)\. It stayed so for 1 seconds\. Try again\.") as caught:
        await executor.write(job)
    assert isinstance(caught.value.__cause__, StoreUnavailable)
    assert job.tries > 1
    tries = job.tries
    assert await insist(lambda: executor.read(count)) == 0
    await asyncio.sleep(0.2)
    assert job.tries <= tries + 1
    await executor.close()


@pytest.mark.parametrize("error", [errors.DiskFull, errors.InsufficientPrivilege, errors.QueryCanceled])
async def test_other_errors_are_not_tried_again(executor: PostgresExecutor, error: type[psycopg.Error]) -> None:
    job = Fails(error("x"), 1)
    with pytest.raises(StoreError):
        await executor.write(job)
    assert job.tries == 1
    assert await executor.read(count) == 0
    await executor.close()


def settings(connection: Connection) -> dict[str, Any]:
    names = ("lock_timeout", "idle_in_transaction_session_timeout")
    return {name: connection.execute(text(f"SHOW {name}")).scalar() for name in names}


async def test_what_the_server_is_told() -> None:
    url = new_postgres_database()
    executor = PostgresExecutor(make_url(url))
    assert await executor.read(settings) == {"lock_timeout": "5s", "idle_in_transaction_session_timeout": "10s"}
    await executor.close()
    executor = PostgresExecutor(make_url(url + "&options=-c%20lock_timeout%3D70ms"))
    assert (await executor.read(settings))["lock_timeout"] == "70ms", "the URL's options count"
    await executor.close()


async def test_a_job_that_takes_too_long_is_not_committed() -> None:
    executor = PostgresExecutor(make_url(new_postgres_database()), patience=0.5)
    await insist(lambda: executor.read(count))
    go = threading.Event()

    def slow(connection: Connection) -> None:
        put(connection)
        go.wait(20)

    with pytest.raises(StoreUnavailable, match=r"took too long: the call was not done after 0\.5 seconds\.") as caught:
        await executor.write(slow, repeatable=False)
    assert "not known" not in str(caught.value), "it was not committed, and is not going to be"
    go.set()
    assert await insist(lambda: executor.read(count)) == 0
    await insist(lambda: executor.write(put))
    assert await insist(lambda: executor.read(count)) == 1
    await executor.close()


async def test_a_loop_that_ends_while_it_is_tried_again() -> None:
    """The thread that served it serves others then."""
    executor = PostgresExecutor(make_url(new_postgres_database()))
    job = Fails(errors.SerializationFailure("x"), 9999)

    async def leave() -> None:
        task = asyncio.create_task(executor.write(job))
        await asyncio.sleep(0.1)
        task.cancel()

    await asyncio.to_thread(asyncio.run, leave())
    tries = job.tries
    await executor.close()
    assert job.tries <= tries + 1


async def test_what_a_job_raises_comes_back_and_nothing_is_stored(executor: PostgresExecutor) -> None:
    def fail(connection: Connection) -> None:
        put(connection)
        raise KeyError("mine")

    with pytest.raises(KeyError):
        await executor.write(fail)
    assert await executor.read(count) == 0
    await executor.close()


async def test_jobs_run_side_by_side_up_to_a_limit(executor: PostgresExecutor) -> None:
    await executor.read(count)
    meeting = threading.Barrier(CONNECTIONS)
    pids = await asyncio.gather(
        *(executor.write(lambda connection: _meet(connection, meeting)) for _ in range(2 * CONNECTIONS))
    )
    assert len(set(pids)) == CONNECTIONS
    await executor.close()


def _meet(connection: Connection, meeting: threading.Barrier) -> Any:
    meeting.wait(20)
    return connection.execute(text("SELECT pg_backend_pid()")).scalar()


async def test_a_migration_may_take_longer_than_any_call_waits() -> None:
    url = new_postgres_database()
    executor = PostgresExecutor(make_url(url), patience=0.3)
    with psycopg.connect(url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await executor.read(count)
    await asyncio.to_thread(wait_for_tables, url)
    assert await insist(lambda: executor.read(count)) == 0
    await executor.close()


def wait_for_tables(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as other:
        while other.execute("SELECT to_regclass('turnwise_app_state')").fetchone() == (None,):
            time.sleep(0.05)
