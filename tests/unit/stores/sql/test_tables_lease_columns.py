import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, insert, not_, select, text
from store_play import on

from turnwise.facts.errors import SessionBusy, StaleWriter
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.stores import Lease
from turnwise.stores.sql import SqlSessionStore
from turnwise.stores.sql.tables import clock, is_leased, metadata, sessions
from turnwise.testing.postgres import postgres_url
from turnwise.testing.session_store_cases.making import asked, fresh_key, message, opened, refused, said

LEASE, OTHER_LEASE = Lease("holder-1", 60.0), Lease("holder-2", 60.0)
HOUR = 3600.0
ROW: dict[str, Any] = {
    "app": "a",
    "user_id": "u",
    "session_id": "s",
    "epoch": 1,
    "revision": 1,
    "queued": 0,
    "last_sequence": 0,
}
ROW |= {"created_at": "", "updated_at": "", "head": "", "state": "", "initial_state": "", "lease_holder": "h"}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/x.db" if request.param == "sqlite" else postgres_url()


def set_clock(url: str, key: SessionKey, seconds: float) -> None:
    """Moves the database's clock by so much, as far as the session's lease can tell."""
    moved = "UPDATE turnwise_sessions SET lease_since = lease_since - :by, lease_until = lease_until - :by WHERE app = :app"
    on(url, lambda connection: connection.execute(text(moved), {"by": seconds, "app": key.app}))


async def begun_by(store: SqlSessionStore, key: SessionKey, lease: Lease) -> Session:
    return await store.begin(await store.create(key), lease, message(), [asked()], queue_limit=None)


async def check_free(store: SqlSessionStore, key: SessionKey, how: str) -> None:
    """That the lease counts nowhere, and the session is taken in that way."""
    seen = await opened(store, key)
    assert not seen.held
    assert await store.leases.due(key.app) == [key]
    if how == "take":
        await store.take(seen, OTHER_LEASE, [said("help")])
    elif how == "begin":
        await store.begin(seen, OTHER_LEASE, message(), [asked()], queue_limit=None)
    else:
        waiting = message()
        await store.inbox.accept(key, waiting, create=False, limit=1)
        await store.begin(seen, OTHER_LEASE, waiting, [asked()], queue_limit=None)
    assert (await opened(store, key)).held
    assert await store.leases.due(key.app) == []


async def check_held(store: SqlSessionStore, key: SessionKey) -> None:
    """That the lease counts everywhere."""
    seen = await opened(store, key)
    assert seen.held
    assert await store.leases.due(key.app) == []
    await refused(store.take(seen, OTHER_LEASE, []), SessionBusy)
    await refused(store.begin(seen, OTHER_LEASE, message(), [asked()], queue_limit=None), SessionBusy)


@pytest.mark.parametrize("how", ["take", "begin", "begin from the inbox"])
@pytest.mark.parametrize("jump", [HOUR, -HOUR, 61.0, -61.0])
def test_a_dead_holders_lease_ends_whichever_way_the_clock_is_set(url: str, jump: float, how: str) -> None:
    """A33"""

    async def run() -> None:
        store, key = SqlSessionStore(url), fresh_key()
        dead = await begun_by(store, key, LEASE)
        await check_held(store, key)
        set_clock(url, key, jump)
        await check_free(store, key, how)
        await refused(store.append(dead, [said("help", "late")]), StaleWriter)
        await refused(store.leases.renew(dead, LEASE), StaleWriter)
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("jump", [50.0, -50.0])
def test_a_clock_that_is_set_a_little_ends_no_lease(url: str, jump: float) -> None:
    """A33"""

    async def run() -> None:
        store, key = SqlSessionStore(url), fresh_key()
        await begun_by(store, key, LEASE)
        set_clock(url, key, jump)
        await check_held(store, key)
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_living_holder_renews_whatever_the_clock_says(url: str, jump: float) -> None:
    """A33: as long as nobody took the session meanwhile."""

    async def run() -> None:
        store, key = SqlSessionStore(url), fresh_key()
        begun = await begun_by(store, key, LEASE)
        set_clock(url, key, jump)
        await store.leases.renew(begun, LEASE)
        await check_held(store, key)
        await store.append(begun, [said("help")])
        await store.close()

    asyncio.run(run())


class SteadyClock:
    """A clock that only grows, as seen by somebody whose database's clock is set: that one jumps, so this one stays behind."""

    def __init__(self) -> None:
        self.behind = 0.0

    def __call__(self) -> float:
        return time.monotonic() - self.behind


def jump(steady: SteadyClock, url: str, key: SessionKey, seconds: float) -> None:
    """Sets the database's clock, in the eyes of all leases and of the stores that go by this steady clock."""
    steady.behind += seconds
    set_clock(url, key, seconds)


@pytest.mark.parametrize("how", ["take", "begin", "begin from the inbox"])
@pytest.mark.parametrize("seconds", [HOUR, -HOUR, 61.0, -61.0])
def test_a_clock_that_is_set_takes_no_session_from_a_living_holder(url: str, seconds: float, how: str) -> None:
    """A33: a process that saw the clock before leaves it the time of its lease to renew it."""

    async def run() -> None:
        steady, key = SteadyClock(), fresh_key()
        store, other = SqlSessionStore(url), SqlSessionStore(url, clock=steady)
        holder = await begun_by(store, key, LEASE)
        await other.leases.due(key.app)
        jump(steady, url, key, seconds)
        seen = await opened(other, key)
        for _ in range(2):
            if how == "take":
                await refused(other.take(seen, OTHER_LEASE, [said("help")]), SessionBusy)
            else:
                waiting = message()
                if how == "begin from the inbox":
                    await other.inbox.accept(key, waiting, create=False, limit=5)
                await refused(other.begin(seen, OTHER_LEASE, waiting, [asked()], queue_limit=None), SessionBusy)
        await store.append(holder, [said("help")])
        await store.leases.renew(holder, LEASE)
        await check_held(store, key)
        await store.close()
        await other.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("ago", "seconds", "counts"),
    [
        (0.0, 10.0, True),
        (9.0, 10.0, True),
        (11.0, 10.0, False),
        (-9.0, 10.0, True),
        (-11.0, 10.0, False),
        (HOUR, 2 * HOUR, True),
        (None, 10.0, False),
        (0.0, None, False),
    ],
)
def test_when_a_lease_counts(ago: float | None, seconds: float | None, counts: bool) -> None:
    """A33: by when it began and for how long. Without one it is false and not unknown, so that its opposite is true."""
    since = clock() - ago if ago is not None else None
    until = clock() - (ago or 0.0) + seconds if seconds is not None else None
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        metadata.create_all(connection)
        connection.execute(insert(sessions).values(ROW | {"lease_since": since, "lease_until": until}))
        assert connection.execute(select(is_leased(), not_(is_leased()))).one() == (counts, not counts)
    engine.dispose()
