"""The store under pressure: its database away, frozen, crowded or locked. What passes is ridden out; all else is an error
in bounded time, and the store goes on afterwards."""

import asyncio
import contextlib
import selectors
import shutil
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url

from turnwise.facts.errors import StoreFull, StoreUnavailable
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql import SqlSessionStore
from turnwise.stores.sql.postgres import CONNECTIONS, PostgresExecutor
from turnwise.stores.sql.sqlite import SqliteExecutor
from turnwise.testing.postgres import PostgresServer, new_postgres_database
from turnwise.testing.session_store_cases.making import at_once, check_fold, lost, message, said, texts, won

KEY = SessionKey("app", "user", "session")
TASKS = 4

T = TypeVar("T")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.close()


def test_the_server_of_these_tests(server: PostgresServer) -> None:
    """It keeps what was committed, whatever is done to it, and does not mind being asked twice."""
    url = server.new_database()
    with psycopg.connect(url) as first:
        first.execute("CREATE TABLE kept (n int)")
    for number in range(3):
        others = [psycopg.connect(url) for _ in range(5)]
        others[0].execute("INSERT INTO kept VALUES (%s)", [number])
        others[0].commit()
        others[1].execute("INSERT INTO kept VALUES (99)")
        server.freeze()
        server.freeze()
        if number:
            server.thaw()
        server.kill()
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            others[0].execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)
        server.start()
        server.start()
        for other in others:
            other.close()
    with psycopg.connect(url) as last:
        assert last.execute("SELECT n FROM kept ORDER BY n").fetchall() == [(0,), (1,), (2,)]


def put(key: str) -> Callable[[Connection], str]:
    def job(connection: Connection) -> str:
        connection.execute(text("INSERT INTO turnwise_state VALUES ('a', '', :key, '1') ON CONFLICT DO NOTHING"), {"key": key})
        return key

    return job


def keys(connection: Connection) -> list[str]:
    return list(connection.execute(text("SELECT key FROM turnwise_state ORDER BY key")).scalars())


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """Makes a call until it succeeds: on a machine with much to do, the short patience of these tests may not suffice."""
    while True:
        try:
            return await call()
        except StoreUnavailable:
            await asyncio.sleep(0.05)


async def until_stable(read: Callable[[], Awaitable[T]]) -> T:
    """What `read` gives twice in a row, some time apart: nothing is still under way then."""
    seen = await insist(read)
    while True:
        await asyncio.sleep(0.3)
        now = await insist(read)
        if now == seen:
            return now
        seen = now


class Writers:
    """Tasks that append to a session each, and put messages in one inbox, until they are told to stop."""

    def __init__(self, store: SqlSessionStore) -> None:
        self.store = store
        self.appended = [0] * TASKS
        self.accepted: list[str] = []
        self._moved = asyncio.Event()
        self._stopped = False

    def key(self, number: int) -> SessionKey:
        return KEY._replace(id=f"session-{number}")

    async def run(self, trouble: Callable[[], None], *, times: int = 1) -> list[BaseException]:
        """Writes during the trouble, and before and after it, so many times; gives what the writers raised."""
        for number in range(TASKS):
            await self.store.create(self.key(number))
        await self.store.create(KEY)
        tasks = [asyncio.create_task(self._append(number)) for number in range(TASKS)]
        tasks.append(asyncio.create_task(self._accept()))
        for _ in range(times):
            await self._progress()
            await asyncio.to_thread(trouble)
        await self._progress()
        self._stopped = True
        return lost(await asyncio.gather(*tasks, return_exceptions=True))

    async def _progress(self) -> None:
        """Waits until each of them has done something from now on."""
        before = [*self.appended, len(self.accepted)]
        while any(now < then + 3 for now, then in zip([*self.appended, len(self.accepted)], before, strict=True)):
            self._moved.clear()
            await self._moved.wait()

    async def _append(self, number: int) -> None:
        session = await self.store.open(self.key(number))
        assert session is not None
        while not self._stopped:
            turn = self.appended[number]
            session = await self.store.append(session, [said("help", str(turn), state_delta={"n": turn})])
            self.appended[number] += 1
            self._moved.set()

    async def _accept(self) -> None:
        while not self._stopped:
            asked = message(id_=f"m-{len(self.accepted)}")
            receipt = await self.store.inbox.accept(KEY, asked, create=False, limit=10**6)
            self.accepted.append(receipt.message.id)
            self._moved.set()

    async def check(self) -> None:
        """Asserts that all that was acknowledged is stored, once, in order and without a gap, and nothing else."""
        for number in range(TASKS):
            session = await check_fold(self.store, self.key(number))
            events = await self.store.events(self.key(number))
            assert [event.sequence for event in events] == list(range(1, len(events) + 1))
            assert [event.text for event in events] == [str(turn) for turn in range(self.appended[number])]
            assert session.last_sequence == self.appended[number]
        queued = []
        while waiting := await self.store.inbox.queued(KEY):
            queued.append(waiting.id)
            await self.store.inbox.refuse(KEY, waiting.id, "counted")
        assert queued == self.accepted


async def test_a_server_that_is_killed_three_times_under_load(server: PostgresServer) -> None:
    """A21, A34"""
    writers = Writers(SqlSessionStore(server.new_database()))

    def kill() -> None:
        server.kill()
        server.start()

    assert await writers.run(kill, times=3) == []
    await writers.check()
    await writers.store.close()


async def test_a_server_that_is_frozen_for_five_seconds(server: PostgresServer) -> None:
    writers = Writers(SqlSessionStore(server.new_database()))
    frozen = threading.Event()

    def freeze() -> None:
        server.freeze()
        frozen.wait(5)
        server.thaw()

    assert await writers.run(freeze) == []
    await writers.check()
    await writers.store.close()


async def test_a_server_that_stays_frozen_is_an_error_and_nothing_runs_later(server: PostgresServer) -> None:
    executor = PostgresExecutor(make_url(server.new_database()), patience=1.0)
    await insist(lambda: executor.write(put("before")))
    ran: list[int] = []

    def note(number: int) -> Callable[[Connection], str]:
        def job(connection: Connection) -> str:
            ran.append(number)
            return put(f"{number:02}")(connection)

        return job

    server.freeze()
    try:
        results = await at_once(executor.write(note(number)) for number in range(2 * CONNECTIONS))
        assert [type(error) for error in results] == [StoreUnavailable] * (2 * CONNECTIONS)
        assert any("does not answer. It stayed so for 1 seconds." in str(error) for error in results)
    finally:
        server.thaw()
    begun = len(ran)
    assert await insist(lambda: executor.write(put("between"))) == "between"
    assert await until_stable(lambda: executor.read(keys)) == ["before", "between"]
    assert len(ran) == begun <= CONNECTIONS, "what waited was dropped"
    again = [insist(partial(executor.write, put(f"{number:02}"))) for number in range(2 * CONNECTIONS)]
    assert lost(await at_once(again)) == []
    await executor.close()


async def test_a_server_that_stays_away_is_an_error_and_may_come_back(server: PostgresServer) -> None:
    executor = PostgresExecutor(make_url(server.new_database()), patience=0.5)
    await insist(lambda: executor.write(put("a")))
    server.kill()
    results = await at_once(executor.write(put(f"lost-{number}")) for number in range(2 * CONNECTIONS))
    server.start()
    assert [type(error) for error in results] == [StoreUnavailable] * (2 * CONNECTIONS)
    for error in results:
        assert "cannot be reached" in str(error)
        assert "It stayed so for 0.5 seconds. Check that the server runs" in str(error)
    assert await insist(lambda: executor.write(put("b"))) == "b"
    assert await until_stable(lambda: executor.read(keys)) == ["a", "b"]
    await executor.close()


async def test_a_frozen_server_does_not_hold_up_the_end(server: PostgresServer) -> None:
    before = set(threading.enumerate())
    store = PostgresExecutor(make_url(server.new_database()), patience=0.5)
    await insist(lambda: store.read(keys))
    threads = [thread for thread in set(threading.enumerate()) - before if thread.name == "turnwise-postgresql"]
    assert threads
    server.freeze()
    try:
        waiting = asyncio.create_task(store.read(keys))
        await asyncio.sleep(0)
        await store.close()
        assert not any(thread.is_alive() for thread in threads), "they were freed, although nobody answered them"
    finally:
        server.thaw()
    with pytest.raises(StoreUnavailable):
        await waiting


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
        found = int(connection.execute(text("SELECT value FROM turnwise_state WHERE key = 'k'")).scalar_one())
        tries.append(found)
        if len(tries) < 3:
            # Somebody else writes what was read, and is done first.
            with psycopg.connect(url) as other:
                other.execute("UPDATE turnwise_state SET value = (value::int + 10)::text WHERE key = 'k'")
        connection.execute(text("UPDATE turnwise_state SET value = :n WHERE key = 'k'"), {"n": str(found + 1)})
        return found + 1

    assert await executor.write(count_up) == 22
    assert tries == [1, 11, 21]
    await executor.close()


async def test_a_row_that_another_program_holds_is_waited_for() -> None:
    url = new_postgres_database()
    executor = PostgresExecutor(make_url(url + "&options=-c%20lock_timeout%3D50ms"))
    await executor.write(put("k"))
    with psycopg.connect(url) as other:
        other.execute("SELECT 1 FROM turnwise_state FOR UPDATE")
        waiting = asyncio.create_task(executor.write(lambda connection: connection.execute(text("DELETE FROM turnwise_state"))))
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
        other.execute("SELECT 1 FROM turnwise_state FOR UPDATE")
        with pytest.raises(StoreUnavailable, match="is locked by another transaction"):
            await executor.write(lambda connection: connection.execute(text("DELETE FROM turnwise_state")))
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


@contextlib.contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Holds the database's write lock, as another program would."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    yield other
    other.close()


async def test_a_lock_that_another_program_holds_for_long_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    executor = SqliteExecutor(make_url(f"sqlite:///{path}"))
    await executor.write(put("a"))
    with locked(path) as other:
        names = [f"{number:02}" for number in range(20)]
        tasks = [asyncio.create_task(executor.write(put(name))) for name in names]
        await asyncio.sleep(1.3)
        assert not any(task.done() for task in tasks)
        assert await executor.read(keys) == ["a"], "readers do not wait"
        other.execute("COMMIT")
        assert await asyncio.gather(*tasks) == names
    await executor.close()


async def test_a_lock_that_stays_is_an_error_and_nothing_runs_later(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    executor = SqliteExecutor(make_url(f"sqlite:///{path}"), patience=0.3)
    await insist(lambda: executor.write(put("a")))
    with locked(path):
        tasks = [asyncio.create_task(executor.write(put(f"lost-{number}"))) for number in range(5)]
        # These wait behind those, which SQLite keeps waiting.
        await asyncio.sleep(0.1)
        tasks += [asyncio.create_task(executor.write(put(f"late-{number}"))) for number in range(5)]
        results = await at_once(tasks)
    assert [type(error) for error in results] == [StoreUnavailable] * 10
    for error in results:
        assert f"{path} is locked by another program (SQLITE_BUSY). It stayed so for 0.3 seconds." in str(error)
    assert await insist(lambda: executor.write(put("b"))) == "b"
    assert await until_stable(lambda: executor.read(keys)) == ["a", "b"]
    await executor.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    """Takes all the room there is."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096) == 4096:
            pass


async def test_a_disk_that_is_full_and_gets_room_again(small_disk: Path) -> None:
    store = SqlSessionStore(f"sqlite:///{small_disk}/x.db")
    sessions = [await store.create(KEY._replace(id=str(number))) for number in range(8)]
    (small_disk / "ballast").write_bytes(b"x" * 3_000_000)
    big = "x" * 2_000_000
    for _ in range(2):
        results = await at_once(
            store.append(session, [said("help", big if number % 2 else "small")]) for number, session in enumerate(sessions)
        )
        assert [type(result) for result in results[1::2]] == [StoreFull] * 4
        assert lost(results[::2]) == [], "those that fit are not held up by those that do not"
        for number, result in enumerate(results):
            stored = await check_fold(store, sessions[number].key)
            assert stored == (sessions[number] if isinstance(result, BaseException) else result)
            sessions[number] = stored
    fill(small_disk / "more")
    with pytest.raises(StoreFull):
        await store.append(sessions[0], [said("help", "x" * 1_500_000)])
    assert await check_fold(store, sessions[0].key) == sessions[0]
    (small_disk / "ballast").unlink()
    (small_disk / "more").unlink()
    session = await store.append(sessions[0], [said("help", "x" * 1_500_000)])
    assert await check_fold(store, session.key) == session
    await store.close()
    again = SqlSessionStore(f"sqlite:///{small_disk}/x.db")
    assert await check_fold(again, session.key) == session
    await again.close()


async def test_a_database_that_is_opened_on_a_full_disk(small_disk: Path) -> None:
    """SQLite calls some of this an error of input and output."""
    for number in range(2):
        store = SqlSessionStore(f"sqlite:///{small_disk}/x.db")
        fill(small_disk / "ballast")
        for _ in range(2):
            with pytest.raises(StoreFull, match=r"x\.db is full\. Free some space"):
                await store.create(KEY._replace(id=str(number)))
        (small_disk / "ballast").unlink()
        await store.create(KEY._replace(id=str(number)))
        await store.close()
