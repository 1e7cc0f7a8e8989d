"""How much each of many may have in a while."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from turnwise.ports.key_store import Counters

MINUTE = 60.0
MAX_NAMES = 100_000
"""More than are counted at once, bar an attack. Then the oldest is forgotten, and whoever it was counted anew."""
FETCH_FRACTION = 50
"""What is counted together is fetched in such parts of the whole."""


@dataclass(slots=True)
class _Window:
    """What is left in a window, until its end by our clock. spent_out: there is no more to be had before."""

    left: int = 0
    end: float = float("-inf")
    spent_out: bool = False
    filling: asyncio.Lock = field(default_factory=asyncio.Lock)


class RateLimiter:
    """Everybody, by name, may have `most` in a window, which begins with the first that is had and lasts `window` seconds.

    With `counters` all processes that share them count together. Each fetches a part of the whole in advance, as a commit
    for each request would cost more than the request: so together they never give more than `most`, but one may refuse what
    others have fetched and not given: at most a fiftieth each, or what was too much at once when it was asked for. Memory is
    bounded, however many names there are. For one event loop. clock: seconds that only grow.
    """

    def __init__(
        self,
        most: int,
        *,
        window: float = MINUTE,
        counters: Counters | None = None,
        names: int = MAX_NAMES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._window, self._counters = most, window, counters
        self._names, self._clock = names, clock
        # In the order in which their windows began.
        self._purses: dict[str, _Window] = {}

    def __len__(self) -> int:
        """How many names are remembered."""
        return len(self._purses)

    async def spend(self, name: str, amount: int = 1) -> float | None:
        """Gives that much; or else nothing, and says in how many seconds there is more. StoreError."""
        if amount > self._most:
            return self._window
        while True:
            purse, now = self._window_of(name), self._clock()
            if purse.end > now and purse.left >= amount:
                purse.left -= amount
                return None
            if purse.end > now and purse.spent_out:
                return purse.end - now
            async with purse.filling:
                if purse.end <= self._clock() or (purse.left < amount and not purse.spent_out):
                    await self._fill(purse, name, amount)

    def known_wait(self, name: str, amount: int = 1) -> float | None:
        """In how many seconds there is more, when it is known that so much is not left; None otherwise."""
        if amount > self._most:
            return self._window
        purse, now = self._purses.get(name), self._clock()
        if purse is None or purse.left >= amount or not purse.spent_out or purse.end <= now:
            return None
        return purse.end - now

    def _window_of(self, name: str) -> _Window:
        purse = self._purses.get(name)
        if purse is None:
            self._make_room()
            purse = self._purses[name] = _Window()
        return purse

    def _make_room(self) -> None:
        """Forgets whose window is over, and the oldest when there are too many: two at most for each that comes."""
        now = self._clock()
        for name, purse in list(islice(self._purses.items(), 2)):
            if (purse.end <= now and not purse.filling.locked()) or len(self._purses) >= self._names:
                del self._purses[name]

    async def _fill(self, purse: _Window, name: str, amount: int) -> None:
        # Looked at before the database does: then the window is never thought to last longer than it does.
        now = self._clock()
        if self._counters is None:
            self._begin(purse, name, now + self._window)
            purse.left, purse.spent_out = self._most, True
            return
        left = purse.left if purse.end > now else 0
        wanted = min(max(amount - left, self._most // FETCH_FRACTION, 1), self._most)
        tally = await self._counters.add(name, wanted, self._window)
        end = now + tally.seconds
        if end - purse.end > self._window / 2:
            self._begin(purse, name, end)
        purse.end = max(purse.end, end)
        granted = min(max(self._most - (tally.total - wanted), 0), wanted)
        purse.left += granted
        purse.spent_out = granted < wanted

    def _begin(self, purse: _Window, name: str, end: float) -> None:
        """Begins a new window; what was left of the last is gone."""
        purse.left, purse.end, purse.spent_out = 0, end, False
        if self._purses.pop(name, None) is not None:
            self._purses[name] = purse
