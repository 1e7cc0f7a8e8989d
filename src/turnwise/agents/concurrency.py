"""Work that is done side by side."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from turnwise.ports.context import Suspend

T = TypeVar("T")


async def run_together(works: Sequence[Awaitable[T]]) -> Sequence[T]:
    """What they give, in order. When one raises, or this is cancelled, the others are stopped.

    One that waits stops nobody: Suspend is raised when all others are done.
    """
    if len(works) == 1:
        return [await works[0]]
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        waiting = await asyncio.gather(*map(_waits, tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if any(waiting):
        raise Suspend
    return [task.result() for task in tasks]


async def _waits(task: "asyncio.Future[T]") -> bool:
    try:
        await task
    except Suspend:
        return True
    return False


HOLD_SECONDS = 0.02
"""How long one task may hold the loop before it lets others run."""


class LoopYielder:
    """For a loop whose awaits may all return at once, such as reading a stream that is buffered already."""

    def __init__(self, seconds: float = HOLD_SECONDS) -> None:
        self._seconds = seconds
        self._since = time.perf_counter()

    async def turn(self) -> None:
        """Lets other tasks run, timers and cancellation among them, if this one held the loop for that long."""
        if time.perf_counter() - self._since > self._seconds:
            await asyncio.sleep(0)
            self._since = time.perf_counter()
