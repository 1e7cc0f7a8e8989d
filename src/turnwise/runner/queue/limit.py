"""The limit on messages that one process answers at once."""

import asyncio
from collections import deque


class ConcurrencyLimit:
    """A FIFO semaphore with `limit` slots that any event loop may use."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def has_room(self) -> bool:
        """True if a slot is free and no one waits for it."""
        return self._free > 0 and not self._waiters

    def try_enter(self) -> bool:
        """Takes a slot if one is free. Returns whether it did."""
        if self.has_room:
            self._free -= 1
            return True
        return False

    @property
    def waiting(self) -> int:
        """The number of waiters."""
        return len(self._waiters)

    def reserve(self) -> "asyncio.Future[None]":
        """Returns a future that is done when the caller has a slot. A caller that no longer wants it must `cancel` it."""
        slot = asyncio.get_running_loop().create_future()
        if self.try_enter():
            slot.set_result(None)
        else:
            self._waiters.append(slot)
        return slot

    def cancel(self, slot: "asyncio.Future[None]") -> None:
        """Cancels a reservation, and releases the slot if it was already granted."""
        if slot in self._waiters:
            self._waiters.remove(slot)
        elif slot.done() and not slot.cancelled():
            self.release()
        # A grant may be in transit; `_grant` then passes the slot on.
        slot.cancel()

    def release(self) -> None:
        """Passes the slot to the longest waiter, or frees it."""
        if self._waiters:
            slot = self._waiters.popleft()
            slot.get_loop().call_soon_threadsafe(self._grant, slot)
        else:
            self._free += 1

    def _grant(self, slot: asyncio.Future[None]) -> None:
        # A cancelled waiter passes the slot on.
        if slot.done():
            self.release()
        else:
            slot.set_result(None)
