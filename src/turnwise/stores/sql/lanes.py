"""A lane: threads that take calls from one queue, and end when told."""

import asyncio
import threading
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from turnwise.facts.errors import StoreError
from turnwise.stores.sql.calls import Call, Watch, deliver

GRACE_SECONDS = 15.0


class Worker(Protocol):
    """What one thread does. Everything but its making happens in that thread."""

    def serve(self, calls: list[Call[Any]]) -> None:
        """Does the calls; each has a result or an error when this returns. Does not raise."""
        ...

    def close(self) -> None:
        """Gives back the connection."""
        ...


class _Stop:
    """Ends one thread, after all that was queued before it."""

    def __init__(self, ended: Call[None] | None = None) -> None:
        self.ended = ended


_Queue = SimpleQueue["Call[Any] | _Stop"]


class Lane:
    """Up to `width` threads, each with a worker of its own, started when there is work for them.

    watch: bounds how long each call waits. batch: how many waiting calls a worker is given at once. grace: for how many
    seconds `close` waits for threads when all their callers were told that it takes too long. An instance that nobody holds
    any more ends its threads.
    """

    def __init__(
        self,
        name: str,
        worker: Callable[[], Worker],
        *,
        watch: Watch,
        width: int = 1,
        batch: int = 1,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._name, self._worker, self._watch, self._width, self._batch = name, worker, watch, width, batch
        self._grace = grace
        self._queue: _Queue = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._pending = _Count()
        self._closed = False

    def submit(self, call: Call[Any]) -> None:
        """Queues a call of this event loop. StoreError after `close`."""
        with self._lock:
            if self._closed:
                raise StoreError("The session store was closed.", fix="Open a new one.")
            self._watch.add(call)
            waiting, threads = self._pending.add(1), len(self._threads)
            if waiting > threads and threads < self._width:
                self._start()
            self._queue.put(call)

    def _start(self) -> None:
        # The thread knows the queue and not the lane, so that a forgotten lane can go.
        arguments = (self._queue, self._worker(), self._batch, self._pending)
        thread = threading.Thread(target=_work, args=arguments, name=f"turnwise-{self._name}", daemon=True)
        self._threads.append(thread)
        weakref.finalize(self, self._queue.put, _Stop())
        thread.start()

    async def close(self) -> None:
        """Ends the threads after what is queued. Idempotent. A thread that nothing frees is left alone."""
        with self._lock:
            threads, self._closed = (self._threads if not self._closed else []), True
            stops = [_Stop(Call(_nothing)) for _ in threads]
            for stop in stops:
                self._queue.put(stop)
        ended = [stop.ended.future for stop in stops if stop.ended]
        if not ended:
            return
        _, standing = await asyncio.wait(ended, timeout=self._watch.place.patience + self._grace)
        if not standing:
            for thread in threads:
                thread.join()


def _nothing(_connection: object) -> None:
    return None


class _Count:
    """How many calls are queued or at work."""

    def __init__(self) -> None:
        self._value = 0
        self._lock = threading.Lock()

    def add(self, more: int) -> int:
        with self._lock:
            self._value += more
            return self._value


def _work(queue: _Queue, worker: Worker, batch: int, pending: _Count) -> None:
    while True:
        calls, stop = _take(queue, batch)
        if calls:
            worker.serve(calls)
            pending.add(-len(calls))
            deliver(calls)
        if stop:
            worker.close()
            if stop.ended:
                deliver([stop.ended])
            return


def _take(queue: _Queue, batch: int) -> tuple[list[Call[Any]], _Stop | None]:
    calls: list[Call[Any]] = []
    item = queue.get()
    try:
        while True:
            if isinstance(item, _Stop):
                return calls, item
            calls.append(item)
            if len(calls) == batch:
                return calls, None
            item = queue.get_nowait()
    except Empty:
        return calls, None
