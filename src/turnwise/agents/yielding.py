"""Giving the event loop to others during work that never waits by itself."""

import asyncio
import time

HOLD_SECONDS = 0.02
"""How long one task may hold the loop before it lets others run."""


class Yielding:
    """For a loop whose awaits may all return at once, such as reading a stream that is buffered already."""

    def __init__(self, seconds: float = HOLD_SECONDS) -> None:
        self._seconds = seconds
        self._since = time.perf_counter()

    async def turn(self) -> None:
        """Lets other tasks run, timers and cancellation among them, if this one held the loop for that long."""
        if time.perf_counter() - self._since > self._seconds:
            await asyncio.sleep(0)
            self._since = time.perf_counter()
