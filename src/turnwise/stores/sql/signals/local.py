"""Signals inside one process: any number of event loops and threads."""

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
"""How many pieces of news are kept for one who is slow."""

Signal = Event | None
"""A partial event, or None: something of the session changed."""


class SignalQueue:
    """Partial events and changes in the order they came; adjacent changes are one.

    When more than `kept` wait, the oldest partial goes and a change stands in its place, so that the reader looks at the store.
    """

    def __init__(self, kept: int = QUEUE_LENGTH) -> None:
        self._kept = kept
        self._items: deque[Signal] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Signal]:
        return iter(self._items)

    def put(self, item: Signal) -> None:
        items = self._items
        if item is None and items and items[-1] is None:
            return
        items.append(item)
        if len(items) > self._kept:
            items.popleft()
            items[0] = None

    def take(self) -> Signal:
        """The oldest; IndexError when there is none."""
        return self._items.popleft()


class Listener:
    """One watch. One waits at it at a time, and anybody may tell it."""

    def __init__(self) -> None:
        self._news = SignalQueue()
        self._lock = threading.Lock()
        self._sleeper: asyncio.Future[None] | None = None

    def tell(self, item: Signal) -> None:
        with self._lock:
            self._news.put(item)
            sleeper, self._sleeper = self._sleeper, None
        if sleeper is not None:
            # A loop that was closed meanwhile has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                sleeper.get_loop().call_soon_threadsafe(_wake, sleeper)

    async def next(self, seconds: float) -> Signal:
        with self._lock:
            if self._news:
                return self._news.take()
            sleeper = self._sleeper = asyncio.get_running_loop().create_future()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await sleeper
        with self._lock:
            if self._sleeper is sleeper:
                self._sleeper = None
            return self._news.take() if self._news else None


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


class Listeners:
    """All listeners of this process, by session."""

    def __init__(self) -> None:
        # The tuples are replaced and never changed: telling needs no lock, and costs a look-up when nobody watches.
        self._listeners: dict[SessionKey, tuple[Listener, ...]] = {}
        self._lock = threading.Lock()

    def add(self, key: SessionKey) -> Listener:
        listener = Listener()
        with self._lock:
            self._listeners[key] = (*self._listeners.get(key, ()), listener)
        return listener

    def remove(self, key: SessionKey, listener: Listener) -> None:
        with self._lock:
            left = tuple(other for other in self._listeners[key] if other is not listener)
            if left:
                self._listeners[key] = left
            else:
                del self._listeners[key]

    def tell(self, key: SessionKey, item: Signal) -> None:
        for listener in self._listeners.get(key, ()):
            listener.tell(item)

    def keys(self) -> tuple[SessionKey, ...]:
        with self._lock:
            return tuple(self._listeners)

    def __contains__(self, key: SessionKey) -> bool:
        return key in self._listeners

    def __len__(self) -> int:
        return len(self._listeners)


class LocalSignals:
    """Wakes the watchers of this process at once. Those in other processes find out when they look at the store.

    A watcher that does not listen has the newest 1,000 pieces of news kept for it; a partial event that had to go counts as
    a change.
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
        self._listeners.tell(key, None)

    def partial(self, key: SessionKey, event: Event) -> None:
        self._listeners.tell(key, event)

    async def close(self) -> None:
        """There is nothing to give back."""
