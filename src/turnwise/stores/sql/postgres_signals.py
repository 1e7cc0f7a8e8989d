"""Signals between all processes that share a PostgreSQL database, through LISTEN and NOTIFY."""

import contextlib
import logging
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import URL

from turnwise.facts.errors import MissingExtra
from turnwise.stores.sql.signal_mailbox import Mailbox

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
from turnwise.stores.sql.local_signals import Listeners

CHANNEL = "turnwise_signals"
BATCH_SECONDS = 0.05
"""Shortest time between two transactions of notifications."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Shortest and longest pause between attempts to connect, in seconds."""
STEADY_SECONDS = 10.0
"""A connection that lasted this long ends an outage."""
JOIN_SECONDS = 1.0
"""How long `join` waits. A thread that hangs while connecting ends by itself."""
# A connection that only listens would not notice a dead server without keepalives.
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
    """The thread and the connection that carry the mailbox's signals. No method but `join` waits, and none raises.

    It connects when it is started and again after each loss, with growing pauses. An outage is logged once.
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
        """Starts the thread, if it does not run."""
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
                # Out of threads, as out of sockets above: the next caller tries again.
                waker.close()
                self._log_outage(error)
                return
            self._waker, self._thread = waker, thread

    def wake(self) -> None:
        """Wakes the thread to send."""
        if self._waker is not None:
            self._waker.wake()

    def stop(self) -> None:
        """Ends the thread after it sent everything that is queued."""
        with self._lock:
            self._stopping.set()
        self.wake()

    def join(self) -> None:
        """Waits for the end of the thread, unless it hangs in the network."""
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)

    def _run(self, waker: "Waker") -> None:
        """Keeps a connection until stopped, and connects again with growing pauses."""
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
        """Returns a new connection of psycopg. Raises MissingExtra."""
        try:
            import psycopg
        except ModuleNotFoundError as error:
            raise MissingExtra("PostgreSQL", "postgres") from error
        plain, named = self._url.get_dialect()().create_connect_args(self._url)
        return psycopg.connect(*plain, **{**CONNECTING, **named}, autocommit=True, prepare_threshold=None)

    def _serve(self, connection: "Connection[Any]", waker: "Waker", *, after_a_gap: bool) -> None:
        """Sends and receives notifications on one connection until stopped, or until the connection fails."""
        received: list[bytes] = []
        connection.pgconn.notify_handler = lambda notification: received.append(notification.extra)
        # Notifications do not survive a server crash anyway; this avoids a disk sync for each transaction.
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
        """Passes all notifications that have arrived to the mailbox."""
        pgconn = connection.pgconn
        while True:
            # Does not block: raises when the connection is gone, else reads the available data.
            pgconn.consume_input()
            while notification := pgconn.notifies():
                received.append(notification.extra)
            if not received:
                return
            for payload in received:
                self._mailbox.receive(payload)
            received.clear()

    def _log_outage(self, error: Exception) -> None:
        """Logs the first error of an outage."""
        if self._is_outage_logged:
            return
        self._is_outage_logged = True
        lines = str(error).strip().splitlines()
        detail = lines[0] if lines else type(error).__name__
        log.warning("No signals through %s (%s). Other processes notice what changes when they look.", self.name, detail)


class Waker:
    """Wakes a thread that waits in a selector. Several calls wake it once."""

    def __init__(self) -> None:
        self._inside, self._outside = socket.socketpair()
        self._inside.setblocking(False)
        self._outside.setblocking(False)
        self._lock = threading.Lock()
        self._is_set = False

    def fileno(self) -> int:
        return self._inside.fileno()

    def wake(self) -> None:
        with self._lock:
            if not self._is_set:
                self._is_set = True
                self._outside.send(b"!")

    def clear(self) -> None:
        with self._lock:
            if self._is_set:
                self._is_set = False
                self._inside.recv(1)

    def close(self) -> None:
        with self._lock:
            # There is no thread left to wake.
            self._is_set = True
            self._inside.close()
            self._outside.close()


POLL_SECONDS = 1.0


class PostgresSignals:
    """Wakes watchers in this process at once, and those in other processes through LISTEN and NOTIFY.

    A process announces its watches when they begin and every `announce_seconds`. Only signals of watched sessions are sent, in
    the background, at most 20 times a second. Partial events reach other processes joined: one event carries the text of
    several,
    with the offset of the first. A partial event with more than text and about 7,800 bytes is not sent, nor is anything of a
    session with a key of that length.

    It connects at the first watch or signal, with one connection, on the channel `turnwise_signals`. While the server cannot be
    reached, only this process is woken; afterwards every watcher reads the store. A connection pool in between must support
    LISTEN (session pooling). Every user of the database may send signals: malformed ones are ignored.
    """

    def __init__(self, url: URL | str, *, announce_seconds: float = 3.0) -> None:
        self._listeners = Listeners()
        self._mailbox = Mailbox(self._listeners, announce_seconds)
        self._connection = SignalConnection(make_url(url), self._mailbox)
        # The thread refers to the connection and not to this object, so that it ends when this object is collected.
        weakref.finalize(self, self._connection.stop).atexit = False

    @property
    def poll_seconds(self) -> float:
        return POLL_SECONDS

    @contextmanager
    def watch(self, key: SessionKey) -> Iterator[Watch]:
        """Watches the session in this process and tells the others, for the duration of the block."""
        listener = self._listeners.add(key)
        try:
            self._mailbox.watch_opened(key)
            self._connection.start()
            self._connection.wake()
            yield listener
        finally:
            self._listeners.remove(key, listener)

    def changed(self, key: SessionKey) -> None:
        self._listeners.notify(key, None)
        self._publish(key, None)

    def partial(self, key: SessionKey, event: Event) -> None:
        self._listeners.notify(key, event)
        self._publish(key, event)

    def all_changed(self) -> None:
        self._listeners.notify_all()
        self._mailbox.publish_all()
        self._connection.start()
        self._connection.wake()

    def _publish(self, key: SessionKey, item: Event | None) -> None:
        if self._mailbox.publish(key, item):
            self._connection.wake()
        # Also without known watches: only a connected process learns of them.
        self._connection.start()

    async def close(self) -> None:
        """Sends queued signals, then ends the thread and its connection. Idempotent. Open watches get nothing more from
        other processes.
        """
        self._connection.stop()
        await asyncio.to_thread(self._connection.join)
