"""How many messages one process answers at once, and whose turn it is."""

import asyncio
from collections import deque


class ConcurrencyLimit:
    """Lets at most `limit` in at once, in the order in which they came. Any event loop may ask."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def has_room(self) -> bool:
        """Whether one could enter now; nobody waits before."""
        return self._free > 0 and not self._waiters

    def try_enter(self) -> bool:
        """Enters if that is possible now."""
        if self.has_room:
            self._free -= 1
            return True
        return False

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._waiters)

    def reserve(self) -> "asyncio.Future[None]":
        """A place in the line; it is done when one has entered. Who does not want it any more gives it up."""
        slot = asyncio.get_running_loop().create_future()
        if self.try_enter():
            slot.set_result(None)
        else:
            self._waiters.append(slot)
        return slot

    def cancel(self, slot: "asyncio.Future[None]") -> None:
        """Leaves the line, or the gate if one has entered meanwhile."""
        if slot in self._waiters:
            self._waiters.remove(slot)
        elif slot.done() and not slot.cancelled():
            self.release()
        # It may be on its way: then it goes to the next.
        slot.cancel()

    def release(self) -> None:
        """Gives the place to who waits longest, or back."""
        if self._waiters:
            slot = self._waiters.popleft()
            slot.get_loop().call_soon_threadsafe(self._grant, slot)
        else:
            self._free += 1

    def _grant(self, slot: asyncio.Future[None]) -> None:
        # Whoever gave up meanwhile does not keep the place from the next.
        if slot.done():
            self.release()
        else:
            slot.set_result(None)
