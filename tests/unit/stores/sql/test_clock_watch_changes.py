"""Counters, slots, pushes and jobs outlast a database's clock that is set by an hour."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from store_play import on

from turnwise.facts.callers import Caller
from turnwise.facts.content import text_content
from turnwise.facts.events import Actions, Event, JobRequest
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.pushes import PushConfig
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import Lease
from turnwise.stores.sql import SqlSessionStore
from turnwise.testing.postgres import new_postgres_database

HOUR = 3600.0
KEY = SessionKey("app", "ann", "s")
TIMES = {"counters": ("ends",), "places": ("ends",), "pushes": ("since", "ends"), "jobs": ("since", "ends")}


class Database:
    """A database that two processes share. `jump` has the effect of setting its clock.

    The real clock cannot be set. So stored times move back, and so do the processes' steady clocks.
    """

    def __init__(self, url: str) -> None:
        self._url, self._offset = url, 0.0
        self.one, self.other = (SqlSessionStore(url, clock=lambda: time.monotonic() + self._offset) for _ in range(2))

    def jump(self, seconds: float) -> None:
        self._offset -= seconds

        def change(connection: Connection) -> None:
            for table, columns in TIMES.items():
                changed = ", ".join(f"{column} = {column} - :seconds" for column in columns)
                connection.execute(text(f"UPDATE turnwise_{table} SET {changed}"), {"seconds": seconds})

        on(self._url, change)

    async def look(self) -> None:
        """Both processes look for abandoned work, as each does every second."""
        for store in (self.one, self.other):
            await store.leases.due("app")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_postgres_database() if request.param == "postgresql" else f"sqlite:///{tmp_path}/x.db"


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    database = Database(url)
    await database.look()
    try:
        yield database
    finally:
        await database.one.close()
        await database.other.close()


both_ways = pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["forward", "back"])


@both_ways
async def test_a_window_of_a_counter_goes_on(url: str, jump: float) -> None:
    async with opened(url) as database:
        await database.one.counters.add("c", 5, 60)
        database.jump(jump)
        for store, total in ((database.other, 6), (database.one, 7), (database.other, 8)):
            tally = await store.counters.add("c", 1, 60)
            assert (tally.total, 0 < tally.seconds <= 60) == (total, True)


@both_ways
async def test_a_window_that_was_over_before_starts_anew(url: str, jump: float) -> None:
    async with opened(url) as database:
        await database.one.counters.add("c", 5, 0.001)
        database.jump(jump)
        assert (await database.other.counters.add("c", 1, 60)).total == 1
        assert (await database.other.counters.add("c", 1, 60)).total == 2


@both_ways
async def test_a_clock_that_is_set_to_and_fro_starts_no_window(url: str, jump: float) -> None:
    async with opened(url) as database:
        await database.one.counters.add("c", 5, 60)
        for sign in (1, -1, 1):
            database.jump(sign * jump)
            assert (await database.other.counters.add("c", 0, 60)).total == 5


@both_ways
async def test_a_slot_stays_its_holders(url: str, jump: float) -> None:
    async with opened(url) as database:
        assert await database.one.counters.take("p", "a", 1, 60)
        database.jump(jump)
        assert not await database.other.counters.take("p", "b", 1, 60)
        assert await database.one.counters.take("p", "a", 1, 60)
        assert not await database.other.counters.take("p", "b", 1, 60)


@both_ways
async def test_a_slot_of_a_dead_holder_is_free_in_its_time(url: str, jump: float) -> None:
    async with opened(url) as database:
        assert await database.one.counters.take("p", "a", 1, 0.001)
        database.jump(jump)
        assert await database.other.counters.take("p", "b", 1, 0.001)


async def test_nothing_that_goes_on_is_swept(url: str) -> None:
    async with opened(url) as database:
        await database.one.counters.add("c", 5, 60)
        await database.one.counters.take("p", "a", 1, 60)
        database.jump(HOUR)
        fresh = database.other.counters
        await fresh.add("another", 1, 60)  # the first call of a process sweeps
        assert (await database.one.counters.add("c", 1, 60)).total == 6
        assert not await fresh.take("p", "b", 1, 60)


@both_ways
async def test_a_push_stays_with_its_sender(url: str, jump: float) -> None:
    """A33"""
    async with opened(url) as database:
        one, other = database.one, database.other
        await one.create(KEY)
        session = await one.open(KEY)
        assert session is not None
        await one.pushes.put(
            KEY, "m", PushConfig(id="p", url="https://a.example", caller=Caller(id="ann", user="ann")), after=0, most=5
        )
        await one.append(session, [event()])
        assert len(await one.pushes.claim("app", Lease("one", 15), limit=10)) == 1
        await other.pushes.claim("app", Lease("other", 15), limit=10)
        database.jump(jump)
        assert not await other.pushes.claim("app", Lease("other", 15), limit=10)
        assert len(await one.pushes.renew(Lease("one", 15))) == 1
        assert not await other.pushes.claim("app", Lease("other", 15), limit=10)


@both_ways
async def test_a_job_stays_with_its_worker(url: str, jump: float) -> None:
    """A33"""
    async with opened(url) as database:
        one, other = database.one, database.other
        await one.create(KEY)
        session = await one.open(KEY)
        assert session is not None
        await one.append(session, [event(jobs=(JobRequest(kind="k", until=0),))])
        assert len(await one.jobs.claim("app", Lease("one", 15), limit=10)) == 1
        await other.jobs.claim("app", Lease("other", 15), limit=10)
        database.jump(jump)
        assert not await other.jobs.claim("app", Lease("other", 15), limit=10)
        (job,) = await one.jobs.renew(Lease("one", 15))
        await one.jobs.put_back(job, "one")
        assert len(await other.jobs.claim("app", Lease("other", 15), limit=10)) == 1


def event(**actions: object) -> Event:
    issuer = SystemIssuer()
    return Event(
        id=issuer.new_id("event"),
        author="a",
        invocation_id="i",
        created_at=issuer.now(),
        content=text_content("x"),
        actions=Actions(**actions),  # type: ignore[arg-type]
    )
