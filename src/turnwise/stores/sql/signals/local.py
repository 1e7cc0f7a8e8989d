"""Signals inside one process: any number of event loops and threads."""

from collections.abc import Iterator
from contextlib import contextmanager

from turnwise.facts.events import Event
from turnwise.facts.sessions import SessionKey
from turnwise.ports.signals import Watch
from turnwise.stores.sql.signals.ears import Ears


class LocalSignals:
    """Wakes the watchers of this process at once. Those in other processes find out when they look at the store.

    A watcher that does not listen has the newest 1,000 pieces of news kept for it; a partial event that had to go counts as
    a change.
    """

    def __init__(self, poll_seconds: float = 0.05) -> None:
        self._poll_seconds = poll_seconds
        self._ears = Ears()

    @property
    def poll_seconds(self) -> float:
        return self._poll_seconds

    @contextmanager
    def watch(self, key: SessionKey) -> Iterator[Watch]:
        ear = self._ears.add(key)
        try:
            yield ear
        finally:
            self._ears.remove(key, ear)

    def changed(self, key: SessionKey) -> None:
        self._ears.tell(key, None)

    def partial(self, key: SessionKey, event: Event) -> None:
        self._ears.tell(key, event)

    async def close(self) -> None:
        """There is nothing to give back."""
