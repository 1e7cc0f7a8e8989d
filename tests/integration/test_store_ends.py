"""Processes, event loops and stores that end, in every order: nothing acknowledged is lost, and no thread stays."""

import asyncio
import gc
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from store_play import KEY, names, url_of

from turnwise.facts.errors import StoreError
from turnwise.stores.sql import SqlSessionStore
from turnwise.testing.postgres import new_postgres_database
from turnwise.testing.session_store_cases.making import check_fold, said, texts


def our_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("turnwise-")}


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
