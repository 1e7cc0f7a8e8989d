"""What goes wrong with the place itself: clear errors, nothing half written, and a store that goes on afterwards."""

import asyncio
import gc
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine, make_url

from turnwise.facts.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.stores import Lease, SessionStore
from turnwise.stores.sql import SqlSessionStore
from turnwise.stores.sql.postgres import PostgresExecutor
from turnwise.testing.postgres import new_postgres_database, postgres_url
from turnwise.testing.session_store_cases.making import asked, at_once, check_fold, lost, message, opened, said, texts, won

KEY = SessionKey("app", "user", "session")
LEASE = Lease("holder", 60.0)
BIG = "x" * 200_000


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def our_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("turnwise-")}


def url_of(path: Path, **options: object) -> str:
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return f"sqlite:///{path}?{query}" if query else f"sqlite:///{path}"


@contextmanager
def page_limit(pages: int) -> Iterator[None]:
    """SQLite's own simulation of a full disk, on every connection made meanwhile."""

    def limit(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}").close()

    event.listen(Engine, "connect", limit)
    try:
        yield
    finally:
        event.remove(Engine, "connect", limit)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Writes beyond it fail, as on a bad disk: SQLite notices when it commits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_full_disk_is_an_error_and_nothing_is_half_written(tmp_path: Path) -> None:
    with page_limit(80):
        store = SqlSessionStore(url_of(tmp_path / "x.db"))
        session = await store.create(KEY)
        with pytest.raises(StoreFull, match=r"x\.db is full\. Free some space"):
            await store.append(session, [asked(state_delta={"app:a": 1}), said("help", BIG + BIG)])
        with pytest.raises(StoreFull):
            await store.begin(session, LEASE, message(BIG + BIG, "m-1"), [asked()], queue_limit=None)
        with pytest.raises(StoreFull):
            await store.inbox.accept(KEY, message(BIG + BIG, "m-2"), create=False, limit=9)
        assert await store.open(KEY) == session
        assert await store.events(KEY) == []
        assert (await store.decisions.search("app")).items == ()
        assert await store.inbox.receipt(KEY, "m-1") is None
        assert await store.inbox.queued(KEY) is None
        session = await store.append(session, [asked("small")])
        assert await check_fold(store, KEY) == session
        await store.close()


async def test_a_full_disk_takes_no_other_call_of_the_group_with_it(tmp_path: Path) -> None:
    with page_limit(120):
        store = SqlSessionStore(url_of(tmp_path / "x.db"))
        sessions = [await store.create(KEY._replace(id=str(n))) for n in range(20)]
        results = await at_once(
            store.append(s, [said("help", BIG + BIG if n % 4 == 0 else "small")]) for n, s in enumerate(sessions)
        )
        assert {type(error) for error in lost(results)} == {StoreFull}
        assert [n for n, result in enumerate(results) if isinstance(result, Exception)] == [0, 4, 8, 12, 16]
        await check_what_was_acknowledged(store, sessions, results)
        await store.close()


async def test_a_commit_that_fails_is_not_acknowledged(tmp_path: Path) -> None:
    store = SqlSessionStore(url_of(tmp_path / "x.db"))
    sessions = [await store.create(KEY._replace(id=str(n))) for n in range(12)]
    with file_size_limit(1_000_000):
        with pytest.raises(StoreUnavailable, match=r"x\.db cannot be read or written now \(SQLITE_IOERR"):
            await store.append(sessions[0], [said("help", BIG * 6)])
        assert await opened(store, sessions[0].key) == sessions[0]
        texts_ = [BIG * 6 if n % 3 == 0 else "small" for n in range(12)]
        results = await at_once(store.append(s, [said("help", text)]) for s, text in zip(sessions, texts_, strict=True))
        assert [n for n, result in enumerate(results) if isinstance(result, Exception)] == [0, 3, 6, 9]
        await check_what_was_acknowledged(store, sessions, results)
    current = await opened(store, sessions[0].key)
    await store.append(current, [said("help", BIG * 6)])
    await store.close()
    again = SqlSessionStore(url_of(tmp_path / "x.db"))
    assert await texts(again, sessions[0].key) == [BIG * 6]
    assert await texts(again, sessions[1].key) == ["small"]
    await again.close()


async def check_what_was_acknowledged(store: SessionStore, before: list[Session], results: list[Any]) -> None:
    for session, result in zip(before, results, strict=True):
        stored = await check_fold(store, session.key)
        assert stored == (session if isinstance(result, Exception) else result)


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"These are my notes. " * 500)
    store = SqlSessionStore(url_of(path))
    for call in (store.open(KEY), store.create(KEY), store.events(KEY)):
        with pytest.raises(StoreCorrupt, match=r"notes\.txt is damaged, or is no SQLite database .*Restore it"):
            await call
    assert path.read_bytes() == b"These are my notes. " * 500
    path.unlink()
    assert (await store.create(KEY)).key == KEY, "the same store goes on once the file is right"
    await store.close()


async def test_a_damaged_database(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = SqlSessionStore(url_of(path))
    session = await store.create(KEY)
    await store.append(session, [said("help", "x" * 3000) for _ in range(200)])
    await store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:40_000] + b"\xa5" * (len(whole) - 40_000))
    store = SqlSessionStore(url_of(path))
    with pytest.raises(StoreCorrupt):
        await store.events(KEY)
    await store.close()


async def test_a_missing_folder(tmp_path: Path) -> None:
    store = SqlSessionStore(url_of(tmp_path / "not" / "here" / "x.db"))
    for _ in range(2):
        with pytest.raises(StoreError, match=r"The folder .*not/here of the database .* does not exist\. Create it") as caught:
            await store.create(KEY)
        assert not isinstance(caught.value, StoreUnavailable), "trying again would not help"
    (tmp_path / "not" / "here").mkdir(parents=True)
    assert (await store.create(KEY)).key == KEY
    await store.close()


@pytest.mark.parametrize("place", ["/proc/turnwise.db", "/"])
async def test_a_place_where_nothing_can_be_made(place: str) -> None:
    store = SqlSessionStore(f"sqlite:///{place}")
    with pytest.raises(StoreError, match=place):
        await store.create(KEY)
    await store.close()


async def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = SqlSessionStore("sqlite:///x.db")
    monkeypatch.chdir(tmp_path / "elsewhere")
    await store.create(KEY)
    assert await store.open(KEY)
    await store.close()
    assert names(tmp_path) == ["elsewhere", "x.db"]
    assert names(tmp_path / "elsewhere") == []


async def test_a_locked_database(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = SqlSessionStore(url_of(path, timeout=0.05))
    session = await store.create(KEY)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    results = await at_once(store.append(session, [said("help", str(n))]) for n in range(3))
    assert [type(error) for error in lost(results)] == [StoreUnavailable] * 3
    assert "is locked by another program" in str(results[0])
    assert await store.open(KEY) == session, "readers do not wait"
    other.execute("COMMIT")
    other.close()
    assert await store.append(session, [said("help", "now")])
    assert await texts(store, KEY) == ["now"]
    await store.close()


async def test_a_new_database_that_is_locked(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    store = SqlSessionStore(url_of(path, timeout=0.05))
    blocked = asyncio.create_task(store.create(KEY))
    await asyncio.sleep(0.2)
    other.execute("COMMIT")
    other.close()
    assert (await blocked).key == KEY, "whoever migrates is waited for"
    await store.close()


_WRITER = """
import asyncio, sys
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql import SqlSessionStore
from turnwise.testing.session_store_cases.making import said

async def main(url):
    store = SqlSessionStore(url)
    async def write(number):
        session = await store.create(SessionKey("app", "user", str(number)))
        for turn in range(10_000):
            session = await store.append(session, [said("help", str(turn), state_delta={"n": turn})])
            print(number, turn, flush=True)
    await asyncio.gather(*(write(n) for n in range(5)))

asyncio.run(main(*sys.argv[1:]))
"""


def kill_a_writer(url: str) -> dict[str, int]:
    """Kills a process that writes; gives the last turn of each session whose append had returned."""
    process = subprocess.Popen([sys.executable, "-c", _WRITER, url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged = {}
    for count, line in enumerate(process.stdout):
        number, turn = line.split()
        acknowledged[number] = int(turn)
        if count == 200:
            process.send_signal(signal.SIGKILL)
    process.wait(30)
    process.stdout.close()
    return acknowledged


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_killed_process_loses_nothing_that_it_acknowledged(kind: str, tmp_path: Path) -> None:
    url = url_of(tmp_path / "x.db") if kind == "sqlite" else new_postgres_database()
    acknowledged = await asyncio.to_thread(kill_a_writer, url)
    store = SqlSessionStore(url)
    for id_, last in acknowledged.items():
        session = await check_fold(store, KEY._replace(id=id_))
        assert session.last_sequence >= last + 1
        assert session.state == {"n": session.last_sequence - 1}
        await store.append(session, [said("help", "goes on")])
    await store.close()


def test_one_store_serves_several_event_loops(tmp_path: Path) -> None:
    for url in ("sqlite://", url_of(tmp_path / "x.db"), new_postgres_database()):
        store = SqlSessionStore(url)
        session = asyncio.run(store.create(KEY))
        session = asyncio.run(store.append(session, [said("help", "one")]))
        other = threading.Thread(target=asyncio.run, args=(store.append(session, [said("help", "two")]),))
        other.start()
        other.join()
        assert asyncio.run(texts(store, KEY)) == ["one", "two"]
        asyncio.run(store.close())


def test_a_loop_that_ends_early_breaks_nothing() -> None:
    store = SqlSessionStore("sqlite://")

    async def leave() -> None:
        tasks = [asyncio.create_task(store.create(KEY._replace(id=str(n)))) for n in range(5)]
        await asyncio.sleep(0)
        tasks[0].cancel()

    asyncio.run(leave())
    created = asyncio.run(store.list("app")).items
    assert len(created) == 5, "what was asked for is done, whoever waits for it"
    asyncio.run(store.close())


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    before = our_threads()
    store = SqlSessionStore(url_of(tmp_path / "x.db"))
    assert our_threads() == before, "it connects at its first use"
    await store.create(KEY)
    await store.open(KEY)
    assert len(our_threads() - before) == 2
    await store.close()
    await store.close()
    assert our_threads() <= before
    assert names(tmp_path) == ["x.db"], "the write-ahead log was folded in"
    with pytest.raises(StoreError, match="was closed"):
        await store.open(KEY)
    unused = SqlSessionStore(url_of(tmp_path / "never.db"))
    await unused.close()
    assert not (tmp_path / "never.db").exists()


def test_a_forgotten_store_ends_its_threads(tmp_path: Path) -> None:
    for url in (url_of(tmp_path / "x.db"), new_postgres_database()):
        before = our_threads()
        store = SqlSessionStore(url)
        asyncio.run(store.create(KEY))
        asyncio.run(store.events(KEY))
        threads = our_threads() - before
        assert threads
        del store
        gc.collect()
        for thread in threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in threads)


def test_a_process_may_end_without_closing(tmp_path: Path) -> None:
    program = f"""
import asyncio
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql import SqlSessionStore
store = SqlSessionStore({url_of(tmp_path / "x.db")!r})
asyncio.run(store.create(SessionKey("app", "user", "session")))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


async def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    executor = PostgresExecutor(make_url(f"postgresql://someone:secret@/db?host={tmp_path}"), patience=0.3)
    with pytest.raises(StoreUnavailable, match=r"database postgresql://someone:\*\*\*@/db cannot be reached") as caught:
        await executor.read(lambda _connection: None)
    assert "secret" not in str(caught.value)
    await executor.close()


async def test_a_database_that_is_not_there() -> None:
    store = SqlSessionStore(postgres_url().replace("/postgres?", "/nowhere?"))
    with pytest.raises(StoreError, match='"nowhere" does not exist') as caught:
        await store.open(KEY)
    assert not isinstance(caught.value, StoreUnavailable), "trying again would not help"
    await store.close()


async def test_lost_connections_are_made_again() -> None:
    url = new_postgres_database()
    store = SqlSessionStore(url)
    sessions = [await store.create(KEY._replace(id=str(n))) for n in range(8)]
    await asyncio.gather(*(store.append(session, [said("help", "before")]) for session in sessions))
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    async def go_on(session: Session) -> Session:
        return await store.append(await opened(store, session.key), [said("help", "after")])

    results = await at_once(go_on(session) for session in sessions)
    assert lost(results) == []
    assert {tuple(await texts(store, session.key)) for session in sessions} == {("before", "after")}
    await store.close()


async def test_transactions_that_collide_are_made_again() -> None:
    """Two sessions write the same shared keys at once, and each holds the row of its own."""
    store = SqlSessionStore(new_postgres_database())

    async def write(number: int) -> None:
        session = await store.create(KEY._replace(id=str(number)))
        for turn in range(10):
            keys = ("app:a", "user:b") if turn % 2 else ("user:b", "app:a")
            gone = {"app:c": None, "user:d": turn} if number % 2 else {"app:c": turn, "user:d": None}
            session = await store.append(session, [said("help", state_delta=dict.fromkeys(keys, number) | gone)])

    assert lost(await at_once(write(number) for number in range(8))) == []
    assert len(won([await store.list("app")])[0].items) == 8
    await store.close()


def test_postgresql_without_its_library() -> None:
    program = """
import asyncio, sys
sys.modules["psycopg"] = None
from turnwise.facts.errors import MissingExtra
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql import SqlSessionStore
store = SqlSessionStore("postgresql://nobody@localhost/none")
async def main():
    try:
        await store.open(SessionKey("app", "user", "session"))
    except MissingExtra as missing:
        print(missing)
    await store.close()
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert "PostgreSQL needs an optional library" in done.stdout
    assert "pip install 'turnwise[postgres]'" in done.stdout
