"""How many messages one process answers at once, and whose turn it is."""

import asyncio
from collections import deque


class ConcurrencyLimit:
    """Lets at most `limit` in at once, in the order in which they came. Any event loop may ask."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._line: deque[asyncio.Future[None]] = deque()

    @property
    def is_open(self) -> bool:
        """Whether one could enter now; nobody waits before."""
        return self._free > 0 and not self._line

    def try_enter(self) -> bool:
        """Enters if that is possible now."""
        if self.is_open:
            self._free -= 1
            return True
        return False

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._line)

    def line_up(self) -> "asyncio.Future[None]":
        """A place in the line; it is done when one has entered. Who does not want it any more gives it up."""
        place = asyncio.get_running_loop().create_future()
        if self.try_enter():
            place.set_result(None)
        else:
            self._line.append(place)
        return place

    def give_up(self, place: "asyncio.Future[None]") -> None:
        """Leaves the line, or the gate if one has entered meanwhile."""
        if place in self._line:
            self._line.remove(place)
        elif place.done() and not place.cancelled():
            self.leave()
        # It may be on its way: then it goes to the next.
        place.cancel()

    def leave(self) -> None:
        """Gives the place to who waits longest, or back."""
        if self._line:
            place = self._line.popleft()
            place.get_loop().call_soon_threadsafe(self._give, place)
        else:
            self._free += 1

    def _give(self, place: asyncio.Future[None]) -> None:
        # Whoever gave up meanwhile does not keep the place from the next.
        if place.done():
            self.leave()
        else:
            place.set_result(None)
