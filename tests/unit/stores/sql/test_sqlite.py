import asyncio
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.engine import Engine, make_url

from turnwise.facts.errors import ConfigError, StoreError, StoreUnavailable
from turnwise.stores.sql.sqlite import SqliteExecutor


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """Every statement that any connection made from now on runs."""
    seen: list[str] = []

    def trace(connection: sqlite3.Connection, _record: object) -> None:
        connection.set_trace_callback(seen.append)

    event.listen(Engine, "connect", trace)
    yield seen
    event.remove(Engine, "connect", trace)


@pytest.fixture(params=["file", "memory"])
def executor(request: pytest.FixtureRequest, tmp_path: Path, statements: list[str]) -> SqliteExecutor:
    return SqliteExecutor(make_url(f"sqlite:///{tmp_path}/x.db" if request.param == "file" else "sqlite://"))


def put(key: str) -> Any:
    def job(connection: Connection) -> str:
        connection.execute(text("INSERT INTO turnwise_app_state VALUES ('a', :key, '1')"), {"key": key})
        return key

    return job


def keys(connection: Connection) -> list[str]:
    return list(connection.execute(text("SELECT key FROM turnwise_app_state ORDER BY key")).scalars())


async def held(executor: SqliteExecutor, jobs: list[Any], statements: list[str]) -> list[Any]:
    """Lets all these jobs wait for the writer, and then go together."""
    started, go = threading.Event(), threading.Event()

    def hold(_connection: Connection) -> None:
        started.set()
        go.wait(10)

    first = asyncio.create_task(executor.write(hold))
    await asyncio.to_thread(started.wait, 10)
    tasks = [asyncio.create_task(executor.write(job)) for job in jobs]
    await asyncio.sleep(0)
    statements.clear()
    go.set()
    await first
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_waits_is_committed_together(executor: SqliteExecutor, statements: list[str]) -> None:
    """A32"""
    names = [f"{n:02}" for n in range(50)]
    assert await held(executor, [put(name) for name in names], statements) == names
    assert statements.count("COMMIT") == 2, "that of the one before, and one for all"
    assert await executor.read(keys) == names
    await executor.close()


async def test_one_that_fails_takes_no_other_with_it(executor: SqliteExecutor, statements: list[str]) -> None:
    def fail(connection: Connection) -> None:
        put("lost")(connection)
        raise KeyError("mine")

    results = await held(executor, [put("a"), fail, put("b"), fail], statements)
    assert results[0::2] == ["a", "b"]
    assert [type(error) for error in results[1::2]] == [KeyError, KeyError]
    assert statements.count("COMMIT") == 2
    assert await executor.read(keys) == ["a", "b"]
    await executor.close()


async def test_a_transaction_that_was_lost_is_made_again_one_by_one(executor: SqliteExecutor, statements: list[str]) -> None:
    """As SQLite itself does it on a full disk: it rolls everything back."""

    def lose(connection: Connection) -> None:
        put("lost")(connection)
        connection.exec_driver_sql("ROLLBACK")
        raise KeyError("mine")

    results = await held(executor, [put("a"), lose, put("b")], statements)
    assert (results[0], type(results[1]), results[2]) == ("a", KeyError, "b")
    assert statements.count("COMMIT") == 3
    assert await executor.read(keys) == ["a", "b"]
    await executor.close()


async def test_one_alone_needs_no_savepoint(executor: SqliteExecutor, statements: list[str]) -> None:
    await executor.write(put("a"))
    statements.clear()
    await executor.write(put("b"))
    assert [statement.split()[0] for statement in statements] == ["BEGIN", "INSERT", "COMMIT"]
    await executor.close()


async def test_writes_are_synced_and_checked(executor: SqliteExecutor) -> None:
    def settings(connection: Connection) -> list[Any]:
        return [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("synchronous", "foreign_keys", "busy_timeout")
        ]

    assert await executor.write(settings) == [2, 1, 500]
    await executor.close()


async def test_readers_write_nothing(tmp_path: Path) -> None:
    executor = SqliteExecutor(make_url(f"sqlite:///{tmp_path}/x.db"))
    await executor.write(put("a"))
    with pytest.raises(StoreError, match="read-only"):
        await executor.read(put("b"))
    assert await executor.read(keys) == ["a"]
    await executor.close()


async def test_a_reader_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    executor = SqliteExecutor(make_url(f"sqlite:///{tmp_path}/x.db"))
    await executor.write(put("a"))
    started, go = threading.Event(), threading.Event()

    def slow(connection: Connection) -> None:
        put("b")(connection)
        started.set()
        go.wait(10)

    writing = asyncio.create_task(executor.write(slow))
    await asyncio.to_thread(started.wait, 10)
    assert await executor.read(keys) == ["a"], "what is not committed is not seen"
    go.set()
    await writing
    assert await executor.read(keys) == ["a", "b"]
    await executor.close()


async def test_the_patience_of_the_url_counts(tmp_path: Path) -> None:
    executor = SqliteExecutor(make_url(f"sqlite:///{tmp_path}/x.db?timeout=0.05"))
    await executor.write(put("a"))
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        await executor.write(put("b"))
    other.close()
    assert await executor.write(put("b")) == "b"
    await executor.close()


@pytest.mark.parametrize("timeout", ["soon", "1s", "nan", "-1"])
def test_a_patience_that_is_no_number(timeout: str) -> None:
    with pytest.raises(ConfigError, match="is no number of seconds"):
        SqliteExecutor(make_url(f"sqlite:///x.db?timeout={timeout}"))


async def test_what_was_given_up_on_is_left_out_of_the_group(tmp_path: Path, statements: list[str]) -> None:
    executor = SqliteExecutor(make_url(f"sqlite:///{tmp_path}/x.db"), patience=1.0)
    await executor.write(put("a"))
    started, go = threading.Event(), threading.Event()

    def hold(connection: Connection) -> None:
        started.set()
        go.wait(10)
        put("held")(connection)

    first = asyncio.create_task(executor.write(hold, repeatable=False))
    await asyncio.to_thread(started.wait, 10)
    tasks = [asyncio.create_task(executor.write(put(f"lost-{n}"))) for n in range(3)]
    results = await asyncio.gather(first, *tasks, return_exceptions=True)
    assert [type(error) for error in results] == [StoreUnavailable] * 4
    assert "took too long: the call was not done after 1 seconds" in str(results[0])
    assert "not known" not in str(results[0]), "nothing of it is committed later"
    statements.clear()
    later = [asyncio.create_task(executor.write(put(f"b-{n}"))) for n in range(3)]
    await asyncio.sleep(0)
    go.set()
    assert await asyncio.gather(*later) == ["b-0", "b-1", "b-2"]
    assert await executor.read(keys) == ["a", "b-0", "b-1", "b-2"]
    assert not any("lost" in statement for statement in statements)
    await executor.close()


async def test_a_call_that_timed_out_within_a_group_is_not_committed(tmp_path: Path) -> None:
    """The others of its group are stored, in a second attempt."""
    executor = SqliteExecutor(make_url(f"sqlite:///{tmp_path}/x.db"), patience=1.0)
    await executor.write(put("a"))
    started, go = threading.Event(), threading.Event()

    def first(connection: Connection) -> None:
        started.set()
        go.wait(10)

    def slow(connection: Connection) -> None:
        put("slow")(connection)
        time.sleep(0.4)

    waiting = asyncio.create_task(executor.write(first))
    await asyncio.to_thread(started.wait, 10)
    group = [asyncio.create_task(executor.write(slow))]
    await asyncio.sleep(0.8)
    group.append(asyncio.create_task(executor.write(put("b"))))
    await asyncio.sleep(0)
    go.set()
    await waiting
    failed, stored = await asyncio.gather(*group, return_exceptions=True)
    assert isinstance(failed, StoreUnavailable)
    assert "not known" not in str(failed)
    assert not isinstance(stored, BaseException)
    assert await executor.read(keys) == ["a", "b"]
    await executor.close()
