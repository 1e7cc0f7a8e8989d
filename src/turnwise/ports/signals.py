"""How those who wait for a session hear of news: readers of a running answer, and processes that wait for their turn."""

from contextlib import AbstractContextManager
from typing import Protocol

from turnwise.facts.events import Event
from turnwise.facts.sessions import SessionKey


class Watch(Protocol):
    """One ear for one session, open while somebody waits; one caller waits at it at a time."""

    async def next(self, seconds: float) -> Event | None:
        """The next partial event, or None: look at the store, for something was stored, or that many seconds are over.

        What comes while nobody listens is kept in its order: adjacent changes as one, partial events up to a bound. One that
        had to be dropped counts as a change.
        """
        ...


class Signals(Protocol):
    """Tells watchers, in this process and in others as far as it reaches, that a session changed.

    A signal is a hint: it may be lost, late, or come twice. The store has the truth, and whoever waits looks there by
    himself every `poll_seconds`. Publishing neither waits for anybody nor raises.
    """

    @property
    def poll_seconds(self) -> float: ...

    def watch(self, key: SessionKey) -> AbstractContextManager[Watch]:
        """An ear for that session, until the block is left."""
        ...

    def changed(self, key: SessionKey) -> None:
        """Something of the session was stored, or its lease was given up."""
        ...

    def partial(self, key: SessionKey, event: Event) -> None:
        """A partial event of the session. Watchers in this process get it always, those in others if it can be carried."""
        ...

    async def close(self) -> None:
        """Gives back connections and threads. Idempotent."""
        ...
