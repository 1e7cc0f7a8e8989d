"""The store among many: connections that run out, transactions that collide, rows that others hold, commits that are not
confirmed, callers that leave."""

import asyncio
import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url
from store_play import KEY, insist, keys, put, until_stable

from turnwise.facts.errors import StoreUnavailable
from turnwise.stores.sql import SqlSessionStore
from turnwise.stores.sql.postgres import CONNECTIONS, PostgresExecutor
from turnwise.stores.sql.sqlite import SqliteExecutor
from turnwise.testing.postgres import new_postgres_database
from turnwise.testing.session_store_cases.making import at_once, check_fold, lost, message, said, texts, won


def limited(url: str) -> tuple[str, psycopg.Connection[Any]]:
    """The URL for a user of that database who may have one connection, and that connection."""
    user = make_url(url).database
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {user} LOGIN CONNECTION LIMIT 1".encode())
        admin.execute(f"GRANT ALL ON SCHEMA public TO {user}".encode())
    url = make_url(url).set(username=user).render_as_string(hide_password=False)
    return url, psycopg.connect(url)


async def test_too_many_connections_are_waited_for() -> None:
    url, other = limited(new_postgres_database())
    executor = PostgresExecutor(make_url(url))
    waiting = asyncio.create_task(executor.read(keys))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    other.close()
    assert await waiting == []
    await executor.close()


async def test_too_many_connections_are_an_error_in_the_end() -> None:
    url, other = limited(new_postgres_database())
    executor = PostgresExecutor(make_url(url), patience=1.0)
    with pytest.raises(StoreUnavailable, match="too many connections for role"):
        await executor.read(keys)
    other.close()
    assert await insist(lambda: executor.read(keys)) == []
    await executor.close()


async def test_transactions_that_collide_are_made_again() -> None:
    url = new_postgres_database()
    executor = PostgresExecutor(make_url(url))
    await executor.write(put("k"))
    tries = []

    def count_up(connection: Connection) -> int:
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"))
        found = int(connection.execute(text("SELECT value FROM turnwise_app_state WHERE key = 'k'")).scalar_one())
        tries.append(found)
        if len(tries) < 3:
            # Somebody else writes what was read, and is done first.
            with psycopg.connect(url) as other:
                other.execute("UPDATE turnwise_app_state SET value = (value::int + 10)::text WHERE key = 'k'")
        connection.execute(text("UPDATE turnwise_app_state SET value = :n WHERE key = 'k'"), {"n": str(found + 1)})
        return found + 1

    assert await executor.write(count_up) == 22
    assert tries == [1, 11, 21]
    await executor.close()


async def test_a_row_that_another_program_holds_is_waited_for() -> None:
    url = new_postgres_database()
    executor = PostgresExecutor(make_url(url + "&options=-c%20lock_timeout%3D50ms"))
    await executor.write(put("k"))
    with psycopg.connect(url) as other:
        other.execute("SELECT 1 FROM turnwise_app_state FOR UPDATE")
        waiting = asyncio.create_task(
            executor.write(lambda connection: connection.execute(text("DELETE FROM turnwise_app_state")))
        )
        await asyncio.sleep(0.4)
        assert not waiting.done()
    await waiting
    assert await executor.read(keys) == []
    await executor.close()


async def test_a_row_that_another_program_keeps_is_an_error_in_the_end() -> None:
    url = new_postgres_database()
    executor = PostgresExecutor(make_url(url), patience=1.2)
    await insist(lambda: executor.write(put("k")))
    with psycopg.connect(url) as other:
        other.execute("SELECT 1 FROM turnwise_app_state FOR UPDATE")
        with pytest.raises(StoreUnavailable, match="is locked by another transaction"):
            await executor.write(lambda connection: connection.execute(text("DELETE FROM turnwise_app_state")))
        assert await insist(lambda: executor.read(keys)) == ["k"], "readers do not wait"
    await executor.close()


async def test_more_calls_than_connections_wait_and_then_fail() -> None:
    executor = PostgresExecutor(make_url(new_postgres_database()), patience=2.0)
    await insist(lambda: executor.read(keys))
    all_busy, go = threading.Barrier(CONNECTIONS + 1), threading.Event()

    def hold(connection: Connection) -> None:
        put(str(threading.get_ident()))(connection)
        all_busy.wait(20)
        go.wait(20)

    holding = [asyncio.create_task(executor.write(hold)) for _ in range(CONNECTIONS)]
    await asyncio.to_thread(all_busy.wait, 20)
    with pytest.raises(StoreUnavailable):
        await executor.write(put("late"))
    go.set()
    assert [type(error) for error in await at_once(holding)] == [StoreUnavailable] * CONNECTIONS
    assert await until_stable(lambda: executor.read(keys)) == [], "neither what waited nor what was given up on is stored"
    assert await insist(lambda: executor.write(put("after"))) == "after"
    await executor.close()


class Proxy:
    """Stands between a client and a server. It can lose the server's answer to a COMMIT, together with the connection."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = make_url(url).update_query_dict({"host": str(folder)})
        self.losses = 0
        self.lost = 0
        self._server = f"{make_url(url).query['host']}/.s.PGSQL.5432"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / ".s.PGSQL.5432"))
        self._listening.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, selectors.DefaultSelector() as ready:
            server.connect(self._server)
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            losing = False
            with contextlib.suppress(OSError):
                while True:
                    for key, _ in ready.select():
                        assert isinstance(key.fileobj, socket.socket)
                        data = key.fileobj.recv(65536)
                        if not data:
                            return
                        if key.fileobj is client and b"COMMIT\0" in data and self.losses:
                            self.losses, losing = self.losses - 1, True
                        elif losing:
                            self.lost += 1
                            return
                        key.data.sendall(data)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    proxy = Proxy(new_postgres_database(), tmp_path)
    yield proxy
    proxy.close()


async def test_an_append_whose_commit_was_not_confirmed_is_stored_once(proxy: Proxy) -> None:
    """A34"""
    store = SqlSessionStore(proxy.url.render_as_string(hide_password=False))
    session = await store.create(KEY)
    for turn in range(3):
        proxy.losses = 1
        session = await store.append(session, [said("help", str(turn), state_delta={"n": turn})])
    assert proxy.lost == 3
    assert await texts(store, KEY) == ["0", "1", "2"]
    assert await check_fold(store, KEY) == session
    proxy.losses = 1
    first = await store.inbox.accept(KEY, message(id_="m"), create=False, limit=1)
    assert (first.state, proxy.lost) == ("queued", 4)
    await store.close()


async def test_what_must_not_be_repeated_is_an_error_when_its_commit_was_not_confirmed(proxy: Proxy) -> None:
    executor = PostgresExecutor(proxy.url)
    await executor.write(put("a"))
    proxy.losses = 1
    with pytest.raises(StoreUnavailable, match=r"It is not known whether this call was stored\. Look whether it is there"):
        await executor.write(put("b"), repeatable=False)
    assert proxy.lost == 1
    assert await executor.read(keys) == ["a", "b"]
    assert await executor.write(put("c"), repeatable=False) == "c"
    await executor.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_callers_that_were_cancelled_leave_it_healthy(kind: str, tmp_path: Path) -> None:
    executor = (
        SqliteExecutor(make_url(f"sqlite:///{tmp_path}/x.db"))
        if kind == "sqlite"
        else PostgresExecutor(make_url(new_postgres_database()))
    )
    await executor.write(put("first"))
    for round_ in range(5):
        tasks = [asyncio.create_task(executor.write(put(f"{round_}-{n:03}"))) for n in range(100)]
        # Some are waiting then, some at work, and some done.
        await asyncio.sleep(0.002 * round_)
        for task in tasks[::2]:
            task.cancel()
        assert {type(result) for result in lost(await at_once(tasks))} <= {asyncio.CancelledError}
        assert all(task.result() for task in tasks[1::2])
    stored = await until_stable(lambda: executor.read(keys))
    assert {f"{round_}-{n:03}" for round_ in range(5) for n in range(1, 100, 2)} <= set(stored)
    assert won(await at_once(executor.write(put(f"last-{n}")) for n in range(20))) == [f"last-{n}" for n in range(20)]
    await executor.close()
