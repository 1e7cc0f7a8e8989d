"""Work that goes on after the request that started it."""

import asyncio
from collections.abc import Coroutine, Hashable
from contextlib import suppress
from typing import Any, TypeVar
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
