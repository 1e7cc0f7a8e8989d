"""Signals inside one process, between any number of event loops and threads."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from turnwise.facts.events import Event
from turnwise.facts.sessions import SessionKey
from turnwise.ports.signals import Watch

QUEUE_LENGTH = 1_000
"""Most signals that wait for a slow reader."""

Signal = Event | None
"""A partial event, or None: the session changed."""


class SignalQueue:
    """Signals in order; adjacent changes are one.

    When more than `length` wait, the oldest partial event is replaced by a change, so that the reader reads the store.
    """

    def __init__(self, length: int = QUEUE_LENGTH) -> None:
        self._length = length
        self._items: deque[Signal] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Signal]:
        return iter(self._items)

    def put(self, signal: Signal) -> None:
        """Adds a signal. When the queue is full, the oldest two become one "changed"."""
        items = self._items
        if signal is None and items and items[-1] is None:
            return
        items.append(signal)
        if len(items) > self._length:
            items.popleft()
            items[0] = None

    def take(self) -> Signal:
        """Removes and returns the oldest. IndexError when the queue is empty."""
        return self._items.popleft()


class Listener:
    """One watch. One task at a time waits on it; any thread may notify it."""

    def __init__(self) -> None:
        self._queue = SignalQueue()
        self._lock = threading.Lock()
        self._waiter: asyncio.Future[None] | None = None

    def notify(self, signal: Signal) -> None:
        """Gives the listener a signal, and wakes its event loop from any thread."""
        with self._lock:
            self._queue.put(signal)
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            # A loop that was closed meanwhile has no waiting tasks.
            with contextlib.suppress(RuntimeError):
                waiter.get_loop().call_soon_threadsafe(_wake, waiter)

    async def next(self, seconds: float) -> Signal:
        """Returns the next signal; None after that many seconds, or when the session changed."""
        with self._lock:
            if self._queue:
                return self._queue.take()
            waiter = self._waiter = asyncio.get_running_loop().create_future()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await waiter
        with self._lock:
            if self._waiter is waiter:
                self._waiter = None
            return self._queue.take() if self._queue else None


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Listeners:
    """All listeners of this process, by session."""

    def __init__(self) -> None:
        # The tuples are replaced and never changed, so `notify` needs no lock and costs one look-up when nobody watches.
        self._listeners: dict[SessionKey, tuple[Listener, ...]] = {}
        self._lock = threading.Lock()

    def add(self, key: SessionKey) -> Listener:
        listener = Listener()
        with self._lock:
            self._listeners[key] = (*self._listeners.get(key, ()), listener)
        return listener

    def remove(self, key: SessionKey, listener: Listener) -> None:
        """Removes a listener of the session."""
        with self._lock:
            left = tuple(other for other in self._listeners[key] if other is not listener)
            if left:
                self._listeners[key] = left
            else:
                del self._listeners[key]

    def notify(self, key: SessionKey, signal: Signal) -> None:
        for listener in self._listeners.get(key, ()):
            listener.notify(signal)

    def notify_all(self) -> None:
        """Notifies every listener of a change."""
        for key in self.keys():
            self.notify(key, None)

    def keys(self) -> tuple[SessionKey, ...]:
        with self._lock:
            return tuple(self._listeners)

    def __contains__(self, key: SessionKey) -> bool:
        return key in self._listeners

    def __len__(self) -> int:
        return len(self._listeners)


class LocalSignals:
    """Wakes the watchers of this process at once. Watchers in other processes notice changes when they poll the store.

    Up to 1,000 signals wait for a watcher that does not listen. Beyond that, the oldest partial event becomes a change.
    """

    def __init__(self, poll_seconds: float = 0.05) -> None:
        self._poll_seconds = poll_seconds
        self._listeners = Listeners()

    @property
    def poll_seconds(self) -> float:
        return self._poll_seconds

    @contextmanager
    def watch(self, key: SessionKey) -> Iterator[Watch]:
        listener = self._listeners.add(key)
        try:
            yield listener
        finally:
            self._listeners.remove(key, listener)

    def changed(self, key: SessionKey) -> None:
        self._listeners.notify(key, None)

    def partial(self, key: SessionKey, event: Event) -> None:
        self._listeners.notify(key, event)

    def all_changed(self) -> None:
        self._listeners.notify_all()

    async def close(self) -> None:
        """Does nothing."""
