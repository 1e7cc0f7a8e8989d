"""Counters and places as rows: clocks that are set back, and what is swept."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from store_play import on

from turnwise.stores.sql import SqlSessionStore
from turnwise.stores.sql.key_store import SWEEP_BATCH
from turnwise.testing.postgres import new_postgres_database

CLOCK = {
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) AS double precision)",
}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_postgres_database() if request.param == "postgresql" else f"sqlite:///{tmp_path}/x.db"


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[SqlSessionStore]:
    store = SqlSessionStore(url)
    try:
        yield store
    finally:
        await store.close()


def end(url: str, table: str, name: str, seconds: float) -> None:
    """Lets what stands under that name end so many seconds from now."""

    def change(connection: Connection) -> None:
        clock = CLOCK[connection.dialect.name]
        statement = text(f"UPDATE turnwise_{table} SET ends = {clock} + :seconds WHERE name = :name")
        assert connection.execute(statement, {"seconds": seconds, "name": name}).rowcount

    on(url, change)


def names(url: str, table: str) -> list[str]:
    statement = text(f"SELECT name FROM turnwise_{table} ORDER BY name")
    found: list[str] = on(url, lambda connection: list(connection.execute(statement).scalars()))
    return found


async def test_a_clock_that_is_set_back_stops_no_counter(url: str) -> None:
    async with opened(url) as store:
        for seconds, total in ((30, 2), (90, 2), (200, 1), (-1, 1)):
            await store.counters.add(f"counter {seconds}", 1, 60)
            end(url, "counters", f"counter {seconds}", seconds)
            tally = await store.counters.add(f"counter {seconds}", 1, 60)
            assert tally.total == total, seconds
            assert 0 < tally.seconds <= 60


async def test_a_clock_that_is_set_back_leaves_no_place_taken(url: str) -> None:
    async with opened(url) as store:
        for seconds, free in ((30, False), (90, False), (200, True), (-1, True)):
            await store.counters.take(f"place {seconds}", "dead", 1, 60)
            end(url, "places", f"place {seconds}", seconds)
            assert await store.counters.take(f"place {seconds}", "next", 1, 60) is free, seconds


async def test_who_comes_back_to_a_place_that_lapsed_takes_a_new_one(url: str) -> None:
    async with opened(url) as store:
        await store.counters.take("place", "slow", 1, 60)
        end(url, "places", "place", -1)
        assert await store.counters.take("place", "next", 1, 60)
        assert not await store.counters.take("place", "slow", 1, 60)
        await store.counters.give("place", "next")
        await store.counters.take("place", "slow", 1, 60)
        end(url, "places", "place", -1)
        assert await store.counters.take("place", "slow", 1, 60)


async def test_what_is_over_is_swept(url: str) -> None:
    async with opened(url) as store:
        for name in ("old", "new"):
            await store.counters.add(name, 1, 60)
            await store.counters.take(name, "holder", 1, 60)
        end(url, "counters", "old", -1)
        end(url, "places", "old", -1)
        await store.counters.add("new", 1, 60)
        assert names(url, "counters") == ["new", "old"], "not at every call"
    async with opened(url) as store:
        await store.counters.add("new", 1, 60)
        assert names(url, "counters") == names(url, "places") == ["new"]


async def test_much_that_is_over_is_swept_piece_by_piece(url: str) -> None:
    def fill(connection: Connection) -> None:
        rows = [{"name": f"{number:05}"} for number in range(2 * SWEEP_BATCH + 1)]
        connection.execute(text("INSERT INTO turnwise_counters VALUES (:name, 1, 0)"), rows)

    async with opened(url) as store:
        await store.counters.take("place", "holder", 1, 60)
    on(url, fill)
    async with opened(url) as store:
        left = []
        for _ in range(4):
            await store.counters.take("place", "holder", 1, 60)
            left.append(len(names(url, "counters")))
    assert left == [SWEEP_BATCH + 1, 1, 0, 0]
