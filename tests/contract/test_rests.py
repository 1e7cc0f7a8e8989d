"""Rests of agents in the SQL store: two processes agree, on SQLite and PostgreSQL."""

import asyncio
from datetime import UTC, datetime, timedelta

from turnwise.facts.errors import AgentTimeout
from turnwise.runner.rests import AgentRests
from turnwise.stores.sql import SqlSessionStore


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


async def test_processes_share_rests_and_one_of_them_probes(url: str) -> None:
    """C20"""
    clock, stores = Clock(), [SqlSessionStore(url)]
    stores.append(stores[0] if url == "sqlite://" else SqlSessionStore(url))
    here, there = (AgentRests(store, "app", clock) for store in stores)
    problem = AgentTimeout("Too long.")
    await asyncio.gather(here.failed("x", "ada", problem), there.failed("x", "bob", problem))
    await here.failed("x", "eve", problem)
    await there.refresh()
    assert set(here.resting()) == set(there.resting()) == {"x"}
    clock.now += timedelta(seconds=31)
    assert here.resting() == there.resting() == {}
    assert await here.try_probe("y") is None
    assert sorted(map(str, await asyncio.gather(here.try_probe("x"), there.try_probe("x")))) == ["False", "True"]
    assert set(here.resting()) == set(there.resting()) == {"x"}
    await here.succeeded("x")
    await there.refresh()
    assert there.resting() == {}
    assert [rest.is_clear for rest in await stores[0].rests.all("app")] == [True]
    assert await stores[0].rests.all("other") == []
    for store in {id(store): store for store in stores}.values():
        await store.close()
