"""The store while its server is killed, frozen or away: what passes is ridden out, all else is an error in bounded time."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial

import psycopg
import pytest
from sqlalchemy import Connection
from sqlalchemy.engine import make_url
from store_play import KEY, insist, keys, put, until_stable

from turnwise.facts.errors import StoreUnavailable
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql import SqlSessionStore
from turnwise.stores.sql.postgres import CONNECTIONS, PostgresExecutor
from turnwise.testing.postgres import PostgresServer
from turnwise.testing.session_store_cases.making import at_once, check_fold, lost, message, said

TASKS = 4


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
        assert any("took too long: the call was not done after 1 seconds." in str(error) for error in results)
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
