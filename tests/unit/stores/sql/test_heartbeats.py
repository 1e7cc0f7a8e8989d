"""Heartbeats: which holders are dead, and what their rows do to leases (A33)."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from store_play import on

from turnwise.facts.errors import SessionBusy, StaleWriter
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.stores import Lease
from turnwise.stores.sql import SqlSessionStore
from turnwise.stores.sql.heartbeats import HeartbeatRow, Observer
from turnwise.testing.postgres import postgres_url
from turnwise.testing.session_store_cases.making import asked, ended, fresh_id, fresh_key, message, opened, refused, said

HOUR = 3600.0
SECONDS = 3.0
OBSERVER = Lease("observer", 0.3)


class Holder:
    """A holder that beats once a second, by a database clock that can be set."""

    def __init__(self, name: str = "one", *, seconds: float = SECONDS) -> None:
        self.name, self.seconds, self.beats, self.beat = name, seconds, 0, 0.0

    def beats_at(self, clock: float) -> None:
        self.beats += 1
        self.beat = clock

    def row(self, clock: float) -> HeartbeatRow:
        return HeartbeatRow(self.name, self.seconds, self.beats, self.beat, clock - self.beat)


def dead_after(observer: Observer, looks: list[tuple[float, float]], holder: Holder, *, until: float = 0.0) -> float | None:
    """Returns the time of the look that found the holder dead, or None. It beats until `until`.

    Args:
        looks: The time and the database's clock of each look.
    """
    for now, clock in looks:
        if now < until:
            holder.beats_at(clock)
        if observer.read([holder.row(clock)], now, 1.0):
            return now
    return None


def each_second(first: int, last: int, *, clock_ahead: float = 0.0) -> list[tuple[float, float]]:
    return [(float(now), now + clock_ahead) for now in range(first, last)]


def test_a_holder_is_dead_when_it_is_silent_for_its_timeout() -> None:
    assert dead_after(Observer(), each_second(0, 20), Holder(), until=10) == 9 + SECONDS


def test_a_holder_with_a_longer_timeout_lives_longer() -> None:
    assert dead_after(Observer(), each_second(0, 60), Holder(seconds=15.0), until=10) == 9 + 15


def test_a_holder_that_beats_is_never_dead() -> None:
    assert dead_after(Observer(), each_second(0, 1000), Holder(), until=HOUR) is None


@pytest.mark.parametrize("jump", [HOUR, -HOUR, SECONDS + 1, -SECONDS - 1])
def test_a_clock_that_is_set_makes_no_living_holder_dead(jump: float) -> None:
    """However often, and whether or not the observer saw the holder before."""
    observer, holder, ahead = Observer(), Holder(), 0.0
    for start in range(0, 100, 2):
        ahead += jump
        looks = each_second(start, start + 2, clock_ahead=ahead)
        # It beats after the look that finds its row as old as the jump.
        for now, clock in looks:
            assert observer.read([holder.row(clock)], now, 1.0) == []
            assert Observer().read([holder.row(clock)], now, 1.0) == []
            holder.beats_at(clock + 0.5)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_clock_that_is_set_keeps_no_dead_holder_alive(jump: float) -> None:
    observer, holder = Observer(), Holder()
    assert dead_after(observer, each_second(0, 5), holder, until=5) is None
    assert dead_after(observer, each_second(5, 20, clock_ahead=jump), holder) == 4 + SECONDS


def test_a_heartbeat_that_is_old_at_first_is_dead_after_half_its_timeout() -> None:
    """After a crash and a restart nobody waits for a whole timeout that has passed already."""
    assert dead_after(Observer(), each_second(100, 120), Holder()) == 100 + 2


def test_a_fresh_heartbeat_that_nobody_renews_is_dead_when_both_clocks_say_so() -> None:
    holder = Holder()
    holder.beats_at(99.5)
    assert dead_after(Observer(), each_second(100, 120), holder) == 103


def test_an_observer_that_stood_still_observes_anew() -> None:
    """What stopped it, such as a lock of another program, may have stopped all others."""
    observer, holder = Observer(), Holder()
    assert dead_after(observer, each_second(0, 12), holder, until=10) is None
    assert dead_after(observer, each_second(60, 80), holder) == 60 + SECONDS


def test_there_is_doubt_while_an_old_heartbeat_is_not_judged() -> None:
    observer, old, fresh = Observer(), Holder("old"), Holder("fresh")
    fresh.beats_at(100.0)
    assert observer.read([fresh.row(100.0)], 0.0, 1.0) == []
    assert not observer.is_in_doubt
    assert observer.read([old.row(100.0), fresh.row(100.0)], 0.25, 1.0) == []
    assert observer.is_in_doubt
    old.beats_at(100.5)
    assert observer.read([old.row(100.5), fresh.row(100.5)], 0.5, 1.0) == []
    assert not observer.is_in_doubt


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/x.db" if request.param == "sqlite" else postgres_url()


@contextlib.asynccontextmanager
async def stores(url: str, number: int = 2) -> AsyncIterator[list[SqlSessionStore]]:
    opened_ = [SqlSessionStore(url) for _ in range(number)]
    yield opened_
    for store in opened_:
        await store.close()


def fresh_lease(seconds: float = 0.3) -> Lease:
    return Lease(fresh_id("holder"), seconds)


async def begun_by(store: SqlSessionStore, key: SessionKey, lease: Lease) -> Session:
    return await store.begin(await store.create(key), lease, message(), [asked()], queue_limit=None)


async def left_by_a_dead_process(store: SqlSessionStore, url: str, key: SessionKey, seconds: float = 0.3) -> Lease:
    """Begins, and takes the heartbeat from the store, so that nobody renews it."""
    living, dead = fresh_lease(seconds), fresh_lease(seconds)
    await begun_by(store, key, living)
    for statement in (
        "UPDATE turnwise_processes SET name = :dead WHERE name = :living",
        "UPDATE turnwise_sessions SET lease_holder = :dead WHERE lease_holder = :living",
    ):
        run(url, statement, dead=dead.holder, living=living.holder)
    return dead


def run(url: str, statement: str, **values: Any) -> None:
    on(url, lambda connection: connection.execute(text(statement), values))


def beat_of(url: str, holder: str) -> tuple[int, float] | None:
    query = text("SELECT count, beat FROM turnwise_processes WHERE name = :name")
    row = on(url, lambda connection: connection.execute(query, {"name": holder}).first())
    return (row.count, row.beat) if row else None


def has_beaten_since(url: str, holder: str, before: tuple[int, float] | None) -> bool:
    return beat_of(url, holder) != before


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - another thread makes it so
            await asyncio.sleep(0.02)


def in_loop(test: Callable[[], Any]) -> None:
    asyncio.run(test())


def test_a_dead_process_is_found_and_its_session_taken(url: str) -> None:
    """A33: by an observer that had not seen it alive."""

    async def case() -> None:
        async with stores(url) as (dead_store, store):
            key = fresh_key()
            dead = await left_by_a_dead_process(dead_store, url, key)
            await opened(store, key)
            await until(lambda: beat_of(url, dead.holder) is None)
            session = await opened(store, key)
            assert not session.held
            assert await store.leases.due(key.app) == [key]
            await store.take(session, OBSERVER, [said("help")])
            assert await store.leases.due(key.app) == []

    in_loop(case)


def test_the_first_look_for_work_waits_until_the_dead_are_known(url: str) -> None:
    """A process that looks once finds what a dead process left long ago."""

    async def case() -> None:
        async with stores(url) as (dead_store, store):
            key = fresh_key()
            dead = await left_by_a_dead_process(dead_store, url, key, seconds=1.0)
            run(url, "UPDATE turnwise_processes SET beat = beat - 3600 WHERE name = :dead", dead=dead.holder)
            assert await store.leases.due(key.app) == [key]

    in_loop(case)


@pytest.mark.parametrize("hours", [1, -1])
def test_a_living_process_keeps_its_session_whatever_the_clock_says(url: str, hours: int) -> None:
    """A33: observers that saw it before, and new ones."""

    async def case() -> None:
        async with stores(url, 3) as (holding, other, newcomer):
            key, lease = fresh_key(), fresh_lease(seconds=1.5)
            begun = await begun_by(holding, key, lease)
            await other.leases.due(key.app)
            for _ in range(4):
                run(url, "UPDATE turnwise_processes SET beat = beat - :by WHERE name = :one", by=hours * HOUR, one=lease.holder)
                before = beat_of(url, lease.holder)
                for store in (other, newcomer):
                    assert await store.leases.due(key.app) == []
                await until(partial(has_beaten_since, url, lease.holder, before))
            await refused(other.take(begun, OBSERVER, []), SessionBusy)
            await holding.append(begun, [ended()], release=True)

    in_loop(case)


def test_a_held_loop_keeps_its_sessions(url: str) -> None:
    """A33: the loop of the holder does nothing for several timeouts."""

    async def case() -> None:
        async with stores(url) as (holding, other):
            key, lease = fresh_key(), fresh_lease()
            begun = await begun_by(holding, key, lease)
            await other.leases.due(key.app)
            before = beat_of(url, lease.holder)
            time.sleep(5 * lease.seconds)  # noqa: ASYNC251 - that is the case
            assert beat_of(url, lease.holder) != before
            assert await other.leases.due(key.app) == []
            await holding.append(begun, [ended()], release=True)

    in_loop(case)


def test_a_process_found_dead_beats_again_and_keeps_what_nobody_took(url: str) -> None:
    """A33: what was taken from it is refused at its next append."""

    async def case() -> None:
        async with stores(url) as (paused, other):
            lease, taken, kept = fresh_lease(), fresh_key(), fresh_key()
            sessions = [await begun_by(paused, key, lease) for key in (taken, kept)]
            new = fresh_lease()
            async with asyncio.timeout(60):
                while (await opened(other, taken)).holder != new.holder:
                    run(url, "DELETE FROM turnwise_processes WHERE name = :one", one=lease.holder)
                    with contextlib.suppress(SessionBusy):  # it beat again in between
                        await other.take(sessions[0], new, [])
            await until(lambda: beat_of(url, lease.holder) is not None)
            await refused(paused.append(sessions[0], [said("help", "late")]), StaleWriter)
            await refused(other.take(sessions[1], fresh_lease(), []), SessionBusy)
            await paused.append(sessions[1], [ended()], release=True)

    in_loop(case)


def test_a_process_restarted_under_its_name_goes_on(url: str) -> None:
    """A33: its old heartbeat is its own, and the session is its own again at once."""

    async def case() -> None:
        async with stores(url) as (dead_store, store):
            key = fresh_key()
            dead = await left_by_a_dead_process(dead_store, url, key, seconds=60.0)
            before = beat_of(url, dead.holder)
            old = await opened(store, key)
            new = await store.take(old, dead, [said("help")])
            assert new.epoch == old.epoch + 1
            await until(lambda: beat_of(url, dead.holder) not in {before, None})
            await refused(dead_store.append(old, [said("help", "late")]), StaleWriter)
            await store.append(new, [ended()], release=True)

    in_loop(case)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
def test_a_closed_loop_holds_nothing(kind: str, tmp_path: Path) -> None:
    """A33: a program that ran a message in a loop and left it has not died, but nobody continues there."""
    place = {"memory": "sqlite://", "sqlite": f"sqlite:///{tmp_path}/x.db"}.get(kind) or postgres_url()
    store, key = SqlSessionStore(place), fresh_key()
    asyncio.run(begun_by(store, key, fresh_lease()))

    async def again() -> None:
        session = await opened(store, key)
        lease = fresh_lease()
        async with asyncio.timeout(60):
            while True:
                try:
                    await store.take(session, lease, [ended()], release=True)
                    break
                except SessionBusy:
                    await store.leases.due(key.app)
                    await asyncio.sleep(0.05)
        await store.close()

    asyncio.run(again())


def test_a_store_that_is_closed_leaves_no_heartbeat(url: str) -> None:
    async def case() -> None:
        lease, store = fresh_lease(60.0), SqlSessionStore(url)
        await begun_by(store, fresh_key(), lease)
        assert beat_of(url, lease.holder) is not None
        await store.close()
        assert beat_of(url, lease.holder) is None

    in_loop(case)


def test_a_lock_of_another_program_makes_nobody_dead(tmp_path: Path) -> None:
    """A33: it stops all processes alike."""

    async def case() -> None:
        url = f"sqlite:///{tmp_path}/x.db"
        async with stores(url) as (holding, other):
            key, lease = fresh_key(), fresh_lease(seconds=0.6)
            begun = await begun_by(holding, key, lease)
            await other.take(await other.create(fresh_key()), fresh_lease(seconds=0.6), [])

            def lock(connection: Any) -> None:
                connection.execute(text("UPDATE turnwise_sessions SET queued = queued"))
                time.sleep(5 * lease.seconds)

            await asyncio.to_thread(on, url, lock)
            assert await other.leases.due(key.app) == []
            await holding.append(begun, [ended()], release=True)

    in_loop(case)


def test_a_death_wakes_everybody_who_watches(url: str) -> None:
    """A33: a process that waits for the holder of its session does not know whether it is that one."""

    async def case() -> None:
        async with stores(url) as (finds, other):
            # Between processes, only PostgreSQL carries signals.
            with finds.signals.watch(fresh_key()) as here, other.signals.watch(fresh_key()) as there:
                await left_by_a_dead_process(finds, url, fresh_key())
                async with asyncio.timeout(60):
                    for watch in (here, *([there] if url.startswith("postgresql") else [])):
                        assert await watch.next(HOUR) is None

    in_loop(case)
