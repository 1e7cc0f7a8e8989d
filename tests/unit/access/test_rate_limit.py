"""How much each may have in a while, alone and together with other processes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from access_play import Clock
from hypothesis import given, strategies as st

from turnwise.access.quotas import RateLimiter
from turnwise.facts.errors import StoreUnavailable
from turnwise.ports.key_store import Counters, Tally
from turnwise.stores.sql import SqlSessionStore


@pytest.fixture
def clock() -> Clock:
    return Clock()


@asynccontextmanager
async def counters() -> AsyncIterator[Counters]:
    store = SqlSessionStore("sqlite://")
    try:
        yield store.counters
    finally:
        await store.close()


class Watched:
    """Counters that count how often they are asked, and may do something before they answer."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self.asked = 0
        self.before: Callable[[], None] = lambda: None

    async def add(self, name: str, amount: int, window: float) -> Tally:
        self.asked += 1
        self.before()
        return await self._counters.add(name, amount, window)

    async def take(self, name: str, holder: str, most: int, seconds: float) -> bool:
        return await self._counters.take(name, holder, most, seconds)

    async def give(self, name: str, holder: str) -> None:
        await self._counters.give(name, holder)


async def test_so_much_and_no_more_in_a_window(clock: Clock) -> None:
    allowances = RateLimiter(3, clock=clock)
    assert [await allowances.spend("ann") for _ in range(3)] == [None] * 3
    clock.now += 20
    assert await allowances.spend("ann") == 40
    assert await allowances.spend("bob") is None
    clock.now += 39.5
    assert await allowances.spend("ann") == 0.5
    clock.now += 0.5
    assert [await allowances.spend("ann") for _ in range(4)] == [None, None, None, 60]


async def test_what_is_refused_takes_nothing(clock: Clock) -> None:
    allowances = RateLimiter(10, clock=clock)
    assert await allowances.spend("ann", 8) is None
    assert await allowances.spend("ann", 3) == 60
    assert await allowances.spend("ann", 2) is None
    assert await allowances.spend("bob", 11) == 60, "so much there never is"
    assert await allowances.spend("bob", 10) is None


async def test_whether_too_little_is_left_can_be_asked(clock: Clock) -> None:
    allowances = RateLimiter(2, clock=clock)
    assert allowances.known_wait("ann") is None
    for left in (None, 60):
        await allowances.spend("ann")
        assert allowances.known_wait("ann") == left
    clock.now += 60
    assert allowances.known_wait("ann") is None


async def test_memory_is_bounded_however_many_there_are(clock: Clock) -> None:
    allowances = RateLimiter(1, names=100, clock=clock)
    for number in range(1_000):
        assert await allowances.spend(f"user-{number}") is None
        assert len(allowances) <= 100
    assert await allowances.spend("user-999") == 60, "the newest are remembered"


async def test_whose_window_is_over_is_forgotten(clock: Clock) -> None:
    allowances = RateLimiter(1, clock=clock)
    for number in range(50):
        await allowances.spend(f"user-{number}")
    clock.now += 60
    for number in range(25):
        await allowances.spend(f"next-{number}")
    assert len(allowances) == 25


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 6), st.floats(0, 50)), max_size=40))
def test_no_window_ever_holds_more(calls: list[tuple[str, int, float]]) -> None:
    """In any stretch of a window's length there are two windows at most, and in each no more than the limit."""
    clock, had = Clock(), list[tuple[str, float, int]]()

    async def spend() -> None:
        allowances = RateLimiter(5, clock=clock)
        for name, amount, later in calls:
            clock.now += later
            if await allowances.spend(name, amount) is None:
                had.append((name, clock.now, amount))

    asyncio.run(spend())
    for name, at, _ in had:
        assert sum(amount for other, when, amount in had if other == name and at <= when < at + 60) <= 10


async def test_processes_that_share_counters_never_give_more_together(clock: Clock) -> None:
    async with counters() as shared:
        processes = [RateLimiter(200, counters=shared, clock=clock) for _ in range(4)]
        asking = [process.spend("ann") for process in processes for _ in range(100)]
        given = (await asyncio.gather(*asking)).count(None)
    # Each may have fetched a part, of four here, that it did not give.
    assert 200 - 4 * 3 <= given <= 200


async def test_one_process_gives_all_there_is(clock: Clock) -> None:
    async with counters() as shared:
        allowances = RateLimiter(200, counters=shared, clock=clock)
        waits = await asyncio.gather(*(allowances.spend("ann") for _ in range(300)))
    assert waits.count(None) == 200
    assert all(0 < wait <= 60 for wait in waits if wait is not None)


async def test_not_every_request_costs_a_commit(clock: Clock) -> None:
    async with counters() as shared:
        watched = Watched(shared)
        allowances = RateLimiter(200, counters=watched, clock=clock)
        for _ in range(200):
            assert await allowances.spend("ann") is None
        assert watched.asked == 50
        for _ in range(100):
            assert await allowances.spend("ann") is not None
        assert watched.asked == 51, "once it is known that there is no more, nobody is asked"


async def test_what_others_took_is_gone(clock: Clock) -> None:
    async with counters() as shared:
        await shared.add("ann", 198, 60)
        allowances = RateLimiter(200, counters=shared, clock=clock)
        assert await allowances.spend("ann", 3) is not None
        assert [await allowances.spend("ann") is None for _ in range(3)] == [True, True, False]


async def test_what_was_fetched_in_a_window_is_not_given_in_the_next(clock: Clock) -> None:
    async with counters() as shared:
        watched = Watched(shared)
        allowances = RateLimiter(200, counters=watched, clock=clock)
        assert await allowances.spend("ann") is None
        clock.now += 60
        # The store's own clock stood still: what it has left is all there is, without the three that were fetched before.
        assert [await allowances.spend("ann") for _ in range(200)].count(None) == 196


async def test_an_answer_that_comes_too_late_is_of_no_use(clock: Clock) -> None:
    async with counters() as shared:
        watched = Watched(shared)
        allowances = RateLimiter(200, counters=watched, clock=clock)
        await allowances.spend("ann")
        assert watched.asked == 1
        # Its window is over when it comes.
        watched.before = lambda: setattr(clock, "now", clock.now + 60) if watched.asked == 2 else None
        await allowances.spend("ann", 100)
        assert watched.asked == 3


async def test_large_amounts_are_fetched_whole(clock: Clock) -> None:
    async with counters() as shared:
        watched = Watched(shared)
        allowances = RateLimiter(1_000, counters=watched, clock=clock)
        assert await allowances.spend("ann", 900) is None
        assert await allowances.spend("ann", 200) is not None
        assert await allowances.spend("ann", 100) is None
        assert watched.asked == 2


async def test_counters_that_are_away_are_asked_again(clock: Clock) -> None:
    def away() -> None:
        raise StoreUnavailable("away")

    async with counters() as shared:
        watched = Watched(shared)
        watched.before = away
        allowances = RateLimiter(3, counters=watched, clock=clock)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await allowances.spend("ann")
        watched.before = lambda: None
        assert await allowances.spend("ann") is None
