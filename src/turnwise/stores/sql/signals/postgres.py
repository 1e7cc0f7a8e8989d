"""Signals between all processes that share a PostgreSQL database."""

import contextlib
import logging
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import URL

from turnwise.facts.errors import MissingExtra
from turnwise.stores.sql.signals.mailbox import Mailbox

if TYPE_CHECKING:
    from psycopg import Connection
import asyncio
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import make_url

from turnwise.facts.events import Event
from turnwise.facts.sessions import SessionKey
from turnwise.ports.signals import Watch
from turnwise.stores.sql.signals.local import Listeners

CHANNEL = "turnwise_signals"
BATCH_SECONDS = 0.05
"""The shortest time between two transactions of notifications."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Between attempts to connect, in seconds."""
STEADY_SECONDS = 10.0
"""A connection that stood so long ends an outage."""
JOIN_SECONDS = 1.0
"""A thread that is stuck in connecting ends by itself; nobody waits longer for it."""
# Whoever only listens would not notice a server that is gone without a word.
CONNECTING = {
    "client_encoding": "utf8",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

log = logging.getLogger("turnwise.stores.sql.signals")


class SignalConnection:
    """Carries what the mailbox has for others, and to it what others send. Nothing of it raises or waits but `join`.

    It connects when it is started, and again after each loss, with growing pauses; an outage is logged once.
    """

    def __init__(self, url: URL, mailbox: Mailbox) -> None:
        self.name = url.set(drivername="postgresql", query={}).render_as_string(hide_password=True)
        self._url, self._mailbox = url.set(drivername="postgresql+psycopg"), mailbox
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._waker: Waker | None = None
        self._stopping = threading.Event()
        self._is_outage_logged = False

    def start(self) -> None:
        """Begins to connect, if it has not begun."""
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is not None or self._stopping.is_set():
                return
            try:
                waker = Waker()
            except OSError as error:
                self._log_outage(error)
                return
            thread = threading.Thread(target=self._run, args=(waker,), name="turnwise-signals", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # No more threads, as no more sockets above: the next caller tries again.
                waker.close()
                self._log_outage(error)
                return
            self._waker, self._thread = waker, thread

    def ring(self) -> None:
        """There is something to send."""
        if self._waker is not None:
            self._waker.ring()

    def stop(self) -> None:
        """Ends the thread after it sent what waits."""
        with self._lock:
            self._stopping.set()
        self.ring()

    def join(self) -> None:
        """Waits for the end of the thread, unless it is stuck in the network."""
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)

    def _run(self, waker: "Waker") -> None:
        pause, after_a_gap = FIRST_PAUSE, False
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                with contextlib.closing(self._connect()) as connection:
                    self._serve(connection, waker, after_a_gap=after_a_gap)
            except Exception as error:
                if time.monotonic() - began > STEADY_SECONDS:
                    pause, self._is_outage_logged = FIRST_PAUSE, False
                self._log_outage(error)
                after_a_gap = True
                self._stopping.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        waker.close()

    def _connect(self) -> "Connection[Any]":
        try:
            import psycopg
        except ModuleNotFoundError as error:
            raise MissingExtra("PostgreSQL", "postgres") from error
        plain, named = self._url.get_dialect()().create_connect_args(self._url)
        return psycopg.connect(*plain, **{**CONNECTING, **named}, autocommit=True, prepare_threshold=None)

    def _serve(self, connection: "Connection[Any]", waker: "Waker", *, after_a_gap: bool) -> None:
        received: list[bytes] = []
        connection.pgconn.notify_handler = lambda notification: received.append(notification.extra)
        # A notification lost with the server is lost anyway; this spares each one a wait for the disk.
        connection.execute("SET synchronous_commit = off")
        connection.execute(f"LISTEN {CHANNEL}")
        if after_a_gap:
            log.info("Signals are carried through %s again.", self.name)
        self._mailbox.connected(after_a_gap=after_a_gap)
        next_batch = 0.0
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(waker, selectors.EVENT_READ)
            while not self._stopping.is_set():
                due = self._mailbox.due()
                selector.select(None if due is None else max(due, next_batch - time.monotonic(), 0.0))
                waker.clear()
                if time.monotonic() >= next_batch and self._mailbox.due() == 0.0:
                    self._send(connection)
                    next_batch = time.monotonic() + BATCH_SECONDS
                self._receive(connection, received)
        self._send(connection)

    def _send(self, connection: "Connection[Any]") -> None:
        if payloads := self._mailbox.take():
            query = "SELECT count(pg_notify(%s, payload)) FROM unnest(%s::text[]) AS payload"
            connection.execute(query, (CHANNEL, payloads))
        self._mailbox.sent()

    def _receive(self, connection: "Connection[Any]", received: list[bytes]) -> None:
        pgconn = connection.pgconn
        while True:
            # It does not wait: it raises when the connection is gone, and reads what is there otherwise.
            pgconn.consume_input()
            while notification := pgconn.notifies():
                received.append(notification.extra)
            if not received:
                return
            for payload in received:
                self._mailbox.receive(payload)
            received.clear()

    def _log_outage(self, error: Exception) -> None:
        if self._is_outage_logged:
            return
        self._is_outage_logged = True
        lines = str(error).strip().splitlines()
        detail = lines[0] if lines else type(error).__name__
        log.warning("No signals through %s (%s). Other processes notice what changes when they look.", self.name, detail)


class Waker:
    """Wakes a thread that waits in a selector. Ringing often wakes once."""

    def __init__(self) -> None:
        self._inside, self._outside = socket.socketpair()
        self._inside.setblocking(False)
        self._outside.setblocking(False)
        self._lock = threading.Lock()
        self._rung = False

    def fileno(self) -> int:
        return self._inside.fileno()

    def ring(self) -> None:
        with self._lock:
            if not self._rung:
                self._rung = True
                self._outside.send(b"!")

    def clear(self) -> None:
        with self._lock:
            if self._rung:
                self._rung = False
                self._inside.recv(1)

    def close(self) -> None:
        with self._lock:
            # Nobody is left to be woken.
            self._rung = True
            self._inside.close()
            self._outside.close()


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
        self._listeners = Listeners()
        self._mailbox = Mailbox(self._listeners, announce_seconds)
        self._connection = SignalConnection(make_url(url), self._mailbox)
        # The thread knows the link and not this object, so that a forgotten one ends it.
        weakref.finalize(self, self._connection.stop).atexit = False

    @property
    def poll_seconds(self) -> float:
        return POLL_SECONDS

    @contextmanager
    def watch(self, key: SessionKey) -> Iterator[Watch]:
        listener = self._listeners.add(key)
        try:
            self._mailbox.watch_opened(key)
            self._connection.start()
            self._connection.ring()
            yield listener
        finally:
            self._listeners.remove(key, listener)

    def changed(self, key: SessionKey) -> None:
        self._listeners.tell(key, None)
        self._publish(key, None)

    def partial(self, key: SessionKey, event: Event) -> None:
        self._listeners.tell(key, event)
        self._publish(key, event)

    def _publish(self, key: SessionKey, item: Event | None) -> None:
        if self._mailbox.publish(key, item):
            self._connection.ring()
        # Also when nobody is known to watch: only who listens hears that somebody does.
        self._connection.start()

    async def close(self) -> None:
        """Sends what waits, and ends the thread and its connection. Idempotent; watches that are open hear nothing more of
        other processes.
        """
        self._connection.stop()
        await asyncio.to_thread(self._connection.join)
