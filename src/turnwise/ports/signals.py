"""Signals that a session has changed, for readers of a running answer and for processes that wait for the session."""

from contextlib import AbstractContextManager
from typing import Protocol

from turnwise.facts.events import Event
from turnwise.facts.sessions import SessionKey


class Watch(Protocol):
    """A subscription to one session. One caller at a time may wait on it."""

    async def next(self, seconds: float) -> Event | None:
        """Returns the next partial event; or None when something was stored, or the seconds are over: then read the store.

        Signals are buffered in order while no caller waits. Adjacent changes count as one. Partial events are buffered up
        to a limit; a dropped one counts as a change.
        """
        ...


class Signals(Protocol):
    """Notifies watchers, in this process and where possible in others, that a session changed.

    A signal is a hint: it may be lost, late or repeated. The store is authoritative, and watchers read it every
    `poll_seconds`. Publishing neither blocks nor raises.
    """

    @property
    def poll_seconds(self) -> float: ...

    def watch(self, key: SessionKey) -> AbstractContextManager[Watch]:
        """Subscribes to the session for the duration of the block."""
        ...

    def changed(self, key: SessionKey) -> None:
        """Signals that something in the session was stored, or that its lease was released."""
        ...

    def partial(self, key: SessionKey, event: Event) -> None:
        """Signals a partial event. Watchers in this process always receive it; those in others if the transport can carry
        it.
        """
        ...

    def all_changed(self) -> None:
        """Signals to every watcher, here and in other processes, that its session may have changed: a holder of leases died."""
        ...

    async def close(self) -> None:
        """Closes connections and threads. Idempotent."""
        ...
