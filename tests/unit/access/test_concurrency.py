"""So many at once: places, and that each is given back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from turnwise.access.quotas import ConcurrencyLimiter
from turnwise.facts.errors import StoreUnavailable
from turnwise.ports.key_store import Tally
from turnwise.stores.sql import SqlSessionStore


class Slow:
    """Counters that answer `take` only when they may, and tell what they were asked."""

    def __init__(self) -> None:
        self.store = SqlSessionStore("sqlite://")
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self.taken: asyncio.Queue[str] = asyncio.Queue()
        self.given: asyncio.Queue[str] = asyncio.Queue()
        self.away, self.gives = False, 0

    async def add(self, name: str, amount: int, window: float) -> Tally:
        return await self.store.counters.add(name, amount, window)

    async def take(self, name: str, holder: str, most: int, seconds: float) -> bool:
        self.asked.put_nowait(holder)
        # A database does what it was asked for, also when nobody waits for it any more.
        return await asyncio.shield(asyncio.create_task(self._take(name, holder, most)))

    async def _take(self, name: str, holder: str, most: int) -> bool:
        await self.may_answer.wait()
        if self.away:
            raise StoreUnavailable("away")
        taken = await self.store.counters.take(name, holder, most, 3600)
        self.taken.put_nowait(holder)
        return taken

    async def give(self, name: str, holder: str) -> None:
        self.gives += 1
        if self.away:
            raise StoreUnavailable("away")
        await self.store.counters.give(name, holder)
        self.given.put_nowait(holder)


@asynccontextmanager
async def slow() -> AsyncIterator[Slow]:
    counters = Slow()
    try:
        yield counters
    finally:
        await counters.store.close()


@pytest.mark.parametrize("together", [False, True])
async def test_so_many_and_no_more_at_once(together: bool) -> None:
    async with slow() as counters:
        places = ConcurrencyLimiter(2, counters=counters if together else None)
        async with places.place("ann") as first, places.place("ann") as second:
            async with places.place("ann") as third, places.place("bob") as others:
                assert (first, second, third, others) == (True, True, False, True)
            async with places.place("ann") as fourth:
                assert not fourth, "who had none gave none back"
        async with places.place("ann") as first, places.place("ann") as second:
            assert first
            assert second


@pytest.mark.parametrize("together", [False, True])
async def test_a_place_is_given_back_however_it_ends(together: bool) -> None:
    async with slow() as counters:
        places, inside = ConcurrencyLimiter(1, counters=counters if together else None), asyncio.Event()

        async def hold() -> None:
            async with places.place("ann") as there_is:
                assert there_is
                inside.set()
                await asyncio.Event().wait()

        with pytest.raises(ZeroDivisionError):
            async with places.place("ann"):
                raise ZeroDivisionError
        holding = asyncio.create_task(hold())
        await inside.wait()
        holding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holding
        async with places.place("ann") as there_is:
            assert there_is


async def test_one_who_is_cancelled_while_he_takes_a_place_leaves_none_behind() -> None:
    async with slow() as counters:
        places = ConcurrencyLimiter(1, counters=counters)
        counters.may_answer.clear()

        async def enter() -> None:
            async with places.place("ann"):
                raise AssertionError("He was cancelled before.")

        entering = asyncio.create_task(enter())
        holder = await counters.asked.get()
        entering.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert counters.gives == 0, "what may come to be is waited for, else it is given back too early"
        counters.may_answer.set()
        with pytest.raises(asyncio.CancelledError):
            await entering
        assert await counters.taken.get() == holder
        assert await counters.given.get() == holder
        async with places.place("ann") as there_is:
            assert there_is


async def test_one_who_is_cancelled_again_while_he_gives_it_back_gives_it_back() -> None:
    async with slow() as counters:
        places = ConcurrencyLimiter(1, counters=counters)
        counters.may_answer.clear()

        async def enter() -> None:
            async with places.place("ann"):
                pass

        entering = asyncio.create_task(enter())
        holder = await counters.asked.get()
        for _ in range(3):
            entering.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await entering
        counters.may_answer.set()
        assert await counters.given.get() == holder


async def test_a_place_that_is_held_for_long_is_prolonged() -> None:
    async with slow() as counters:
        places = ConcurrencyLimiter(1, counters=counters, seconds=0.003)
        async with places.place("ann"):
            holders = {await counters.asked.get() for _ in range(4)}
        assert len(holders) == 1
        assert await counters.given.get() in holders


async def test_a_store_that_goes_away_ends_nothing() -> None:
    """What is held goes on, and nobody is told of a place that cannot be given back: it lapses by itself."""
    async with slow() as counters:
        places = ConcurrencyLimiter(1, counters=counters, seconds=0.003)
        async with places.place("ann") as there_is:
            counters.away = True
            for _ in range(3):
                await counters.asked.get()
            assert there_is
        assert counters.given.empty()
        with pytest.raises(StoreUnavailable):
            async with places.place("ann"):
                raise AssertionError("There is nobody who could give one.")


async def test_a_place_may_be_given_back_by_another_task() -> None:
    """A gateway takes it while it is asked, and gives it back when the answer ends."""
    async with slow() as counters:
        places, stack = ConcurrencyLimiter(1, counters=counters), AsyncExitStack()
        assert await stack.enter_async_context(places.place("ann"))
        await asyncio.create_task(stack.aclose())
        async with places.place("ann") as there_is:
            assert there_is


async def test_a_place_that_is_given_back_while_it_is_prolonged_stays_given() -> None:
    """A database does the one and the other, in whatever order they come to it."""
    async with slow() as counters:
        places = ConcurrencyLimiter(1, counters=counters, seconds=0.003)

        async def enter() -> None:
            async with places.place("ann"):
                holder = await counters.taken.get()
                counters.may_answer.clear()
                assert {counters.asked.get_nowait(), await counters.asked.get()} == {holder}
                left.set()

        left = asyncio.Event()
        entering = asyncio.create_task(enter())
        await left.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        assert counters.gives == 0, "what may take it again is waited for"
        counters.may_answer.set()
        await entering
        assert await counters.taken.get() == await counters.given.get()
        async with places.place("ann") as there_is:
            assert there_is
