"""How often those who wait for a place look at the store; what they find there is tested with two processes."""

import asyncio
from typing import Any

import pytest
from runner_play import InFront, key
from survival_model.clock import VirtualLoop

from turnwise import SqlSessionStore
from turnwise.runner.queue.queue import ConcurrencyLimit, SessionQueue
from turnwise.runner.queue.session_worker import FIRST_LOOK_SECONDS, LOOKS_PER_SECOND, SELDOM_PER_SECOND, SlotWaiter
from turnwise.testing.session_store_cases.making import message

SECONDS = 20


class Looks(InFront):
    """A store that counts how often a session is opened, and answers in no time."""

    def __init__(self, inner: Any, loop: VirtualLoop) -> None:
        super().__init__(inner)
        self.count, self._loop = 0, loop

    async def open(self, *arguments: Any, **options: Any) -> Any:
        self.count += 1
        return self._loop.finish(self._inner.open(*arguments, **options))


def slot_waiter(store: Any, name: str, *, closing: bool = False) -> SlotWaiter:
    # These queues hold no run that could be sent on.
    inbox_queue: Any = InFront(None, send_on=_nobody)
    return SlotWaiter(store, SessionQueue(key(name), closing=closing), inbox_queue, "me")


async def _nobody(queue: SessionQueue) -> None:
    assert not queue.waiting


@pytest.mark.parametrize("sessions", [1, 10, 300])
def test_many_who_wait_look_seldom(sessions: int) -> None:
    """All of them together look so often, however many they are; a few as often as the store's signals want it."""
    loop = VirtualLoop()
    store = SqlSessionStore("sqlite://")
    looks = Looks(store, loop)

    async def wait() -> None:
        limit = ConcurrencyLimit(1)
        assert limit.try_enter()
        tasks = [asyncio.create_task(slot_waiter(looks, str(n)).enter(limit, first=True)) for n in range(sessions)]
        await asyncio.sleep(SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert limit.waiting == 0

    try:
        loop.run_until_complete(wait())
    finally:
        loop.close()
        asyncio.run(store.close())
    polls = sessions * SECONDS / store.signals.poll_seconds
    most = min(polls, SECONDS * LOOKS_PER_SECOND)
    assert 0.5 * most <= looks.count <= most * 1.1


def test_those_for_whom_nobody_waits_here_look_more_seldom() -> None:
    """An engine's calls that wait for a place: what others do about their sessions shows when they get it."""
    loop, sessions = VirtualLoop(), 100
    store = SqlSessionStore("sqlite://")
    looks = Looks(store, loop)

    async def wait() -> None:
        limit = ConcurrencyLimit(1)
        assert limit.try_enter()
        for n in range(sessions):
            loop.finish(store.inbox.accept(key(str(n)), message(), create=True, limit=1))
        tasks = [asyncio.create_task(slot_waiter(looks, str(n)).enter(limit, recovers=True)) for n in range(sessions)]
        await asyncio.sleep(2 * sessions / SELDOM_PER_SECOND)
        assert limit.waiting == sessions
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    try:
        loop.run_until_complete(wait())
    finally:
        loop.close()
        asyncio.run(store.close())
    assert sessions <= looks.count <= 2 * sessions


def test_a_place_that_comes_soon_costs_no_look() -> None:
    """Nor does one that is free."""
    loop = VirtualLoop()
    store = SqlSessionStore("sqlite://")
    looks = Looks(store, loop)

    async def enter() -> None:
        limit = ConcurrencyLimit(1)
        assert await slot_waiter(looks, "s").enter(limit)
        second = asyncio.create_task(slot_waiter(looks, "s").enter(limit, first=True))
        await asyncio.sleep(FIRST_LOOK_SECONDS * 0.9)
        limit.release()
        assert await second
        assert not limit.has_room

    try:
        loop.run_until_complete(enter())
    finally:
        loop.close()
        asyncio.run(store.close())
    assert looks.count == 0


@pytest.mark.parametrize("closing", [False, True])
async def test_who_has_nothing_to_do_keeps_no_place(closing: bool) -> None:
    """A22: whether it finds that out while it waits, or as its place comes."""
    store = SqlSessionStore("sqlite://")
    limit = ConcurrencyLimit(1)
    assert limit.try_enter()
    waiting = asyncio.create_task(slot_waiter(store, "s", closing=closing).enter(limit, recovers=True))
    await asyncio.sleep(0)
    if closing:
        limit.release()
    assert not await asyncio.wait_for(waiting, 30)
    assert limit.waiting == 0
    assert limit.has_room == closing
    await store.close()
