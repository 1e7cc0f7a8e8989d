"""What goes wrong with the place itself: clear errors, nothing half written, and a store that goes on afterwards."""

import asyncio
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from store_play import KEY, names, url_of

from turnwise.facts.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable
from turnwise.facts.sessions import Session
from turnwise.ports.stores import Lease, SessionStore
from turnwise.stores.sql import SqlSessionStore
from turnwise.testing.session_store_cases.making import asked, at_once, check_fold, lost, message, opened, said, texts

LEASE = Lease("holder", 60.0)
BIG = "x" * 200_000


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
    with page_limit(150):
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
    with page_limit(190):
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
