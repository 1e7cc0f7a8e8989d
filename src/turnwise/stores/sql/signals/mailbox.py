"""The outgoing and incoming signals of a process, and the watches of other processes."""

import itertools
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterable

from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql.signals import encoding
from turnwise.stores.sql.signals.local import Listeners, Signal, SignalQueue

VALIDITY_FACTOR = 2.5
"""An announcement is valid for this many intervals between announcements."""
RECENT_SECONDS = 5.0
"""A watcher that has just begun may have missed a change that is younger than this."""
RECENT_CHANGES = 1_000
REMOTE_WATCHES = 10_000
OUTBOX_LENGTH = 10_000


class Mailbox:
    """Connects this process's listeners with other processes. Thread-safe and non-blocking.

    Args:
        listeners: The listeners of this process.
        announce_seconds: Seconds between two announcements of all watches.
        clock: Monotonic seconds.
    """

    def __init__(self, listeners: Listeners, announce_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._listeners, self._announce_seconds, self._clock = listeners, announce_seconds, clock
        self._sender = uuid.uuid4().hex
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._remote_watches: dict[SessionKey, float] = {}
        """Sessions that other processes watch, with the end of the watch."""
        self._recent: dict[SessionKey, float] = {}
        """Recently changed sessions with the time, oldest first."""
        self._outbox: dict[SessionKey, SignalQueue] = {}
        self._waiting = 0
        self._unconfirmed: tuple[SessionKey, ...] = ()
        """Sessions whose signals were taken for sending and are not confirmed yet."""
        self._is_wake_unconfirmed = False
        """True if a change of every session was taken for sending and is not confirmed yet."""
        self._unannounced: set[SessionKey] = set()
        """Sessions watched here and not announced yet."""
        self._announced: dict[SessionKey, float] = {}
        """When sessions were last announced. Other processes know a young announcement, also of a watch that ended since."""
        self._next_announcement = 0.0
        self._must_greet = self._must_wake_all = False

    def publish(self, key: SessionKey, signal: Signal) -> bool:
        """Queues a signal for other processes. Returns False when none of them watches the session."""
        with self._lock:
            now = self._clock()
            if signal is None:
                self._remember(key, now)
            if not self._is_watched(key, now):
                return False
            self._queue(key, signal)
            return True

    def publish_all(self) -> None:
        """Queues a change of every session for other processes."""
        with self._lock:
            self._must_wake_all = True

    def watch_opened(self, key: SessionKey) -> None:
        """Records that a watch began in this process. Other processes are told, unless they know it from one just before."""
        with self._lock:
            if self._clock() - self._announced.get(key, -math.inf) >= self._announce_seconds:
                self._unannounced.add(key)

    def connected(self, *, after_a_gap: bool) -> None:
        """Records that the connection is up: asks the others for their watches and announces ours.

        After a gap every watcher here reads the store, and watchers elsewhere do where a sent signal may be lost.
        """
        watched = self._listeners.keys()
        with self._lock:
            self._must_greet = True
            self._announced.clear()
            self._unannounced.update(watched)
            for key in self._unconfirmed:
                self._queue(key, None)
            self._unconfirmed = ()
            self._must_wake_all = self._must_wake_all or self._is_wake_unconfirmed
        if after_a_gap:
            self._listeners.notify_all()

    def due(self) -> float | None:
        """Returns in how many seconds there is something to send; None = not before a signal or a watch."""
        with self._lock:
            if self._outbox or self._unannounced or self._must_greet or self._must_wake_all:
                return 0.0
            if not self._listeners:
                return None
            return max(0.0, self._next_announcement - self._clock())

    def take(self) -> list[str]:
        """Returns the payloads to send. `sent` confirms them; `connected` before that means that they may be lost."""
        with self._lock:
            now = self._clock()
            fresh, self._unannounced = self._unannounced, set()
            greets, self._must_greet = self._must_greet, False
            wakes_all, self._must_wake_all = self._must_wake_all, False
            self._is_wake_unconfirmed = wakes_all
            outbox, self._outbox, self._waiting = self._outbox, {}, 0
            self._unconfirmed = tuple(outbox)
            announces_all = now >= self._next_announcement
            if announces_all:
                self._next_announcement = now + self._announce_seconds
        notifications = [*([encoding.HELLO] if greets else []), *([encoding.ALL_CHANGED] if wakes_all else [])]
        validity = self._announce_seconds * VALIDITY_FACTOR
        watched = self._listeners.keys() if announces_all else tuple(key for key in fresh if key in self._listeners)
        self._note_announced(watched, now)
        notifications += (encoding.watched(key, validity, fresh=key in fresh) for key in watched)
        for key, queued in outbox.items():
            notifications += encoding.signal_notes(key, queued)
        return list(encoding.pack(self._sender, notifications, self._numbers))

    def sent(self) -> None:
        """Confirms the payloads of the last `take`."""
        with self._lock:
            self._unconfirmed, self._is_wake_unconfirmed = (), False

    def receive(self, payload: bytes) -> None:
        """Handles a payload of another process. Does not raise; malformed payloads are ignored."""
        for notification in encoding.unpack(payload, own=self._sender):
            match notification.kind:
                case "hello":
                    with self._lock:
                        self._announced.clear()
                        self._next_announcement = 0.0
                case "watched":
                    self._note_remote_watch(notification)
                case "all_changed":
                    self._listeners.notify_all()
                case "changed":
                    self._listeners.notify(notification.key, None)
                case "partial" if notification.key in self._listeners and (event := encoding.event_of(notification.raw)):
                    self._listeners.notify(notification.key, event)

    def _note_announced(self, keys: Iterable[SessionKey], now: float) -> None:
        with self._lock:
            self._announced |= dict.fromkeys(keys, now)
            if len(self._announced) > REMOTE_WATCHES:
                self._announced.clear()

    def _note_remote_watch(self, notification: encoding.Notification) -> None:
        """Notes that another process watches the session, and signals a recent change that it may have missed."""
        with self._lock:
            now = self._clock()
            is_known = self._is_watched(notification.key, now)
            if not is_known and len(self._remote_watches) >= REMOTE_WATCHES:
                self._remote_watches = {key: until for key, until in self._remote_watches.items() if until > now}
                if len(self._remote_watches) >= REMOTE_WATCHES:
                    return
            self._remote_watches[notification.key] = max(
                now + notification.seconds, self._remote_watches.get(notification.key, 0.0)
            )
            # The watcher may have read the store before the last change.
            if (notification.fresh or not is_known) and now - self._recent.get(notification.key, -math.inf) < RECENT_SECONDS:
                self._queue(notification.key, None)

    def _is_watched(self, key: SessionKey, now: float) -> bool:
        """Returns whether another process watches the session at that time."""
        until = self._remote_watches.get(key)
        if until is None:
            return False
        if until <= now:
            del self._remote_watches[key]
            return False
        return True

    def _remember(self, key: SessionKey, now: float) -> None:
        self._recent.pop(key, None)
        self._recent[key] = now
        if len(self._recent) > RECENT_CHANGES:
            del self._recent[next(iter(self._recent))]

    def _queue(self, key: SessionKey, signal: Signal) -> None:
        """Queues a signal for sending. A full outbox drops the oldest session's signals."""
        queue = self._outbox.setdefault(key, SignalQueue())
        before = len(queue)
        queue.put(signal)
        self._waiting += len(queue) - before
        if self._waiting > OUTBOX_LENGTH:
            self._waiting -= len(self._outbox.pop(next(iter(self._outbox))))
