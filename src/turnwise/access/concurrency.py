"""Concurrency limits: how many operations run at once for each name."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from turnwise.facts.errors import StoreError
from turnwise.ports.key_store import Counters

SLOT_SECONDS = 60.0
"""How long the slot of a dead process stays taken."""


class ConcurrencyLimiter:
    """Gives each name up to `most` slots at once. For one event loop.

    Args:
        most: Slots of one name.
        counters: Shared counters; all processes that use them share the slots. None = the slots of this process.
        seconds: How long a shared slot lasts. It is renewed while it is in use.
    """

    def __init__(self, most: int, *, counters: Counters | None = None, seconds: float = SLOT_SECONDS) -> None:
        self._most, self._counters, self._seconds = most, counters, seconds
        self._used: dict[str, int] = {}
        self._releases: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def place(self, name: str) -> AsyncIterator[bool]:
        """Takes a slot for the duration of the context and releases it however the context ends.

        Yields:
            True when a slot was free, else False.

        Raises:
            StoreError: The shared counters cannot be reached. Raised on entry only.
        """
        entered = self._local_slot(name) if self._counters is None else self._shared_slot(self._counters, name)
        async with entered as is_free:
            yield is_free

    @asynccontextmanager
    async def _local_slot(self, name: str) -> AsyncIterator[bool]:
        """Takes a slot of this process for the block; yields False if none is free."""
        taken = self._used.get(name, 0)
        if taken >= self._most:
            yield False
            return
        self._used[name] = taken + 1
        try:
            yield True
        finally:
            self._used[name] -= 1
            if not self._used[name]:
                del self._used[name]

    @asynccontextmanager
    async def _shared_slot(self, counters: Counters, name: str) -> AsyncIterator[bool]:
        """Takes a slot that all processes share for the block, and renews it; yields False if none is free."""
        holder = secrets.token_hex(8)
        taking = asyncio.create_task(counters.take(name, holder, self._most, self._seconds))
        renewing: asyncio.Task[None] | None = None
        done = asyncio.Event()
        try:
            # A cancelled caller may still get its slot: `_release` waits for it and gives it back.
            is_free = await asyncio.shield(taking)
            if is_free:
                renewing = asyncio.create_task(self._renew(counters, name, holder, done))
            yield is_free
        finally:
            done.set()
            await asyncio.shield(self._start_release(_release(counters, name, holder, taking, renewing)))

    async def _renew(self, counters: Counters, name: str, holder: str, done: asyncio.Event) -> None:
        """Renews the slot until `done` is set. It must not be cancelled: the store completes a started call anyway."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), self._seconds / 3)
                return
            with suppress(StoreError):  # the next renewal may succeed
                await counters.take(name, holder, self._most, self._seconds)

    def _start_release(self, release: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(release)
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)
        return task


async def _release(
    counters: Counters, name: str, holder: str, taking: asyncio.Task[bool], renewing: asyncio.Task[None] | None
) -> None:
    """Releases the slot after all pending calls that could take it again. Without the store it expires by itself."""
    await asyncio.wait({task for task in (taking, renewing) if task is not None})
    if taking.cancelled() or taking.exception() is not None or taking.result():
        with suppress(StoreError):
            await counters.give(name, holder)
