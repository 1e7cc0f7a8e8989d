import asyncio
import threading
from typing import Any

import psycopg
import pytest
from psycopg import errors
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from turnwise.facts.errors import StoreUnavailable
from turnwise.stores.sql.postgres import CONNECTIONS, TRIES, PostgresExecutor
from turnwise.testing.postgres import new_postgres_database


@pytest.fixture
def executor() -> PostgresExecutor:
    return PostgresExecutor(make_url(new_postgres_database()))


def put(connection: Connection) -> None:
    connection.execute(text("INSERT INTO turnwise_state VALUES ('a', '', 'k', '1')"))


def count(connection: Connection) -> Any:
    return connection.execute(text("SELECT count(*) FROM turnwise_state")).scalar()


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


async def test_a_collision_is_tried_again(executor: PostgresExecutor) -> None:
    assert await executor.write(Fails(errors.DeadlockDetected("x"), 2)) == 3
    assert await executor.read(count) == 1, "the tries before were rolled back"
    await executor.close()


async def test_tries_come_to_an_end(executor: PostgresExecutor) -> None:
    job = Fails(errors.SerializationFailure("x"), 99)
    with pytest.raises(StoreUnavailable, match="too busy"):
        await executor.write(job)
    assert job.tries == TRIES
    assert await executor.read(count) == 0
    await executor.close()


async def test_other_errors_are_not_tried_again(executor: PostgresExecutor) -> None:
    job = Fails(errors.LockNotAvailable("x"), 1)
    with pytest.raises(StoreUnavailable):
        await executor.write(job)
    assert job.tries == 1
    assert await executor.read(count) == 0
    await executor.close()


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
