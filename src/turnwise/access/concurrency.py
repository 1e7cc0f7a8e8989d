"""So many at once, for each of many."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from turnwise.facts.errors import StoreError
from turnwise.ports.key_store import Counters

SLOT_SECONDS = 60.0
"""How long a place stays taken whose process died."""


class ConcurrencyLimiter:
    """Everybody, by name, has `most` places at once.

    With `counters` all processes that share them count together, and a place that is held is prolonged now and then. For one
    event loop.
    """

    def __init__(self, most: int, *, counters: Counters | None = None, seconds: float = SLOT_SECONDS) -> None:
        self._most, self._counters, self._seconds = most, counters, seconds
        self._taken: dict[str, int] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def place(self, name: str) -> AsyncIterator[bool]:
        """Whether there is a place; it is held as long as the context, however that ends. StoreError, only on the way in."""
        entered = self._local_slot(name) if self._counters is None else self._shared_slot(self._counters, name)
        async with entered as there_is:
            yield there_is

    @asynccontextmanager
    async def _local_slot(self, name: str) -> AsyncIterator[bool]:
        taken = self._taken.get(name, 0)
        if taken >= self._most:
            yield False
            return
        self._taken[name] = taken + 1
        try:
            yield True
        finally:
            self._taken[name] -= 1
            if not self._taken[name]:
                del self._taken[name]

    @asynccontextmanager
    async def _shared_slot(self, counters: Counters, name: str) -> AsyncIterator[bool]:
        holder = secrets.token_hex(8)
        taking = asyncio.create_task(counters.take(name, holder, self._most, self._seconds))
        holding: asyncio.Task[None] | None = None
        left = asyncio.Event()
        try:
            # Whoever is cancelled here may get a place all the same: it is waited for, and given back.
            there_is = await asyncio.shield(taking)
            if there_is:
                holding = asyncio.create_task(self._hold(counters, name, holder, left))
            yield there_is
        finally:
            left.set()
            await asyncio.shield(self._leave(_release(counters, name, holder, taking, holding)))

    async def _hold(self, counters: Counters, name: str, holder: str, left: asyncio.Event) -> None:
        """Prolongs it until it is left. Never to be cancelled: what a store was asked for, it does all the same."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(left.wait(), self._seconds / 3)
                return
            with suppress(StoreError):  # it may be there again next time
                await counters.take(name, holder, self._most, self._seconds)

    def _leave(self, giving: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(giving)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        return task


async def _release(
    counters: Counters, name: str, holder: str, taking: asyncio.Task[bool], holding: asyncio.Task[None] | None
) -> None:
    """Gives the place back, once nothing is under way that would take it again. Without the store it lapses by itself."""
    await asyncio.wait({task for task in (taking, holding) if task is not None})
    if taking.cancelled() or taking.exception() is not None or taking.result():
        with suppress(StoreError):
            await counters.give(name, holder)
