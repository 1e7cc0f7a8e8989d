"""Signals between all processes that share a PostgreSQL database."""

import asyncio
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import URL, make_url

from turnwise.facts.events import Event
from turnwise.facts.sessions import SessionKey
from turnwise.ports.signals import Watch
from turnwise.stores.sql.signals.ears import Ears
from turnwise.stores.sql.signals.exchange import Exchange
from turnwise.stores.sql.signals.link import Link

POLL_SECONDS = 1.0


class PostgresSignals:
    """Wakes watchers in this process at once, and those in other processes through LISTEN and NOTIFY.

    A process announces what it watches, every `announce_seconds` and when it begins; only what somebody watches is sent, in
    the background, at most 20 times a second. So partial events reach other processes joined: one carries the text of several,
    with the offset of the first. A partial event that is not only text and has more than some 7,800 bytes is left out there,
    and so is everything of a session whose key is that long.

    It connects at the first watch or news, with one connection, on the channel `turnwise_signals`. While the server cannot be
    reached, only this process is woken; afterwards every watcher is told to look. A pool of connections between here and the
    server must keep sessions apart for LISTEN to work. Whoever may use the database may send signals: what is malformed is
    ignored.
    """

    def __init__(self, url: URL | str, *, announce_seconds: float = 3.0) -> None:
        self._ears = Ears()
        self._exchange = Exchange(self._ears, announce_seconds)
        self._link = Link(make_url(url), self._exchange)
        # The thread knows the link and not this object, so that a forgotten one ends it.
        weakref.finalize(self, self._link.stop).atexit = False

    @property
    def poll_seconds(self) -> float:
        return POLL_SECONDS

    @contextmanager
    def watch(self, key: SessionKey) -> Iterator[Watch]:
        ear = self._ears.add(key)
        try:
            self._exchange.opened(key)
            self._link.start()
            self._link.ring()
            yield ear
        finally:
            self._ears.remove(key, ear)

    def changed(self, key: SessionKey) -> None:
        self._ears.tell(key, None)
        self._publish(key, None)

    def partial(self, key: SessionKey, event: Event) -> None:
        self._ears.tell(key, event)
        self._publish(key, event)

    def _publish(self, key: SessionKey, item: Event | None) -> None:
        if self._exchange.publish(key, item):
            self._link.ring()
        # Also when nobody is known to watch: only who listens hears that somebody does.
        self._link.start()

    async def close(self) -> None:
        """Sends what waits, and ends the thread and its connection. Idempotent; watches that are open hear nothing more of
        other processes.
        """
        self._link.stop()
        await asyncio.to_thread(self._link.join)
