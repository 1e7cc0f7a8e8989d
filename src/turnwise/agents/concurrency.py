"""Helpers for concurrent work: run awaitables together, and yield to the event loop."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from turnwise.ports.context import Suspend

T = TypeVar("T")
HOLD_SECONDS = 0.02
"""The longest time, in seconds, that one task may run before it yields to others."""


async def run_together(awaitables: Sequence[Awaitable[T]]) -> Sequence[T]:
    """Runs the awaitables concurrently and returns their results in order.

    When one raises, or the caller is cancelled, the others are cancelled. One that suspends does not stop the others:
    Suspend is raised once all others are done.
    """
    if len(awaitables) == 1:
        return [await awaitables[0]]
    tasks = [asyncio.ensure_future(work) for work in awaitables]
    try:
        suspended = await asyncio.gather(*map(_is_suspended, tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if any(suspended):
        raise Suspend
    return [task.result() for task in tasks]


async def _is_suspended(task: "asyncio.Future[T]") -> bool:
    try:
        await task
    except Suspend:
        return True
    return False


class LoopYielder:
    """Yields to the event loop now and then. For loops in which no await may ever pause, such as reading a buffered stream."""

    def __init__(self, seconds: float = HOLD_SECONDS) -> None:
        self._seconds = seconds
        self._since = time.perf_counter()

    async def turn(self) -> None:
        """Lets other tasks run, including timers and cancellation, if the time limit has passed since the last yield."""
        if time.perf_counter() - self._since > self._seconds:
            await asyncio.sleep(0)
            self._since = time.perf_counter()
