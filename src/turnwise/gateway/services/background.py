"""Work that goes on after the request that started it."""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Hashable
from contextlib import suppress
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from turnwise.facts.errors import TurnwiseError

T = TypeVar("T")


class Locks:
    """A lock for each key, which concurrent requests of this process share."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    def of(self, key: Hashable) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())


class BackgroundTasks:
    """The tasks that an app's requests have started. Each one runs to its end, even if nobody awaits it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Starts a task. A Turnwise error in it is not logged."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def settled(self) -> None:
        """Waits until all tasks are done."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        with suppress(asyncio.CancelledError, TurnwiseError):
            task.result()


class CachedResults(Generic[T]):
    """Results that take long to make. One is made at a time; a caller that goes away leaves it to the next one.

    Args:
        tasks: The tasks that make them.
        seconds: How long a result is returned again.
        most: How many results are kept, the newest ones.
    """

    def __init__(self, tasks: BackgroundTasks, *, seconds: float = math.inf, most: int = 1) -> None:
        self._lock, self._tasks, self._seconds, self._most = asyncio.Lock(), tasks, seconds, most
        self._known: dict[Hashable, tuple[float, T]] = {}

    async def of(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Returns the kept result, or makes it."""
        # Threads cannot be cancelled. So the lock belongs to a task, which lasts as long as the work in its threads.
        return await asyncio.shield(self._tasks.start(self._get_or_make(key, make)))

    async def _get_or_make(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Returns the kept result while it is fresh; otherwise makes it, keeps it and forgets the oldest."""
        async with self._lock:
            found = self._known.get(key)
            if found is not None and time.monotonic() - found[0] <= self._seconds:
                return found[1]
            result = await make()
            self._known.pop(key, None)
            self._known[key] = time.monotonic(), result
            while len(self._known) > self._most:
                del self._known[next(iter(self._known))]
            return result
