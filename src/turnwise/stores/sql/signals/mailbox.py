"""What one process knows of the others' watches, what it has to tell them, and what it hears from them."""

import itertools
import math
import threading
import time
import uuid
from collections.abc import Callable

from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql.signals import encoding
from turnwise.stores.sql.signals.local import Listeners, Signal, SignalQueue

VALIDITY_FACTOR = 2.5
"""An announcement is believed for that many times the seconds until the next."""
RECENT_SECONDS = 5.0
"""A change that is no older may have been missed by one who has just begun to watch."""
RECENT_CHANGES = 1_000
REMOTE_WATCHES = 10_000
OUTBOX_LENGTH = 10_000


class Mailbox:
    """Between the listeners of this process and the wire. May be used from any thread; never waits for anybody."""

    def __init__(self, listeners: Listeners, announce_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._listeners, self._announce_seconds, self._clock = listeners, announce_seconds, clock
        self._sender = uuid.uuid4().hex
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._remote_watches: dict[SessionKey, float] = {}
        """Watched by others, until when."""
        self._recent: dict[SessionKey, float] = {}
        """Changed lately and when, oldest first."""
        self._outbox: dict[SessionKey, SignalQueue] = {}
        self._waiting = 0
        self._unconfirmed: tuple[SessionKey, ...] = ()
        """What was given out to be sent, and is not known to be."""
        self._unannounced: set[SessionKey] = set()
        """Watched here, and not announced yet."""
        self._next_announcement = 0.0
        self._must_greet = False

    def publish(self, key: SessionKey, item: Signal) -> bool:
        """Queues news for those who watch elsewhere; False when nobody does."""
        with self._lock:
            now = self._clock()
            if item is None:
                self._remember(key, now)
            if not self._is_watched(key, now):
                return False
            self._queue(key, item)
            return True

    def watch_opened(self, key: SessionKey) -> None:
        """Somebody here begins to watch."""
        with self._lock:
            self._unannounced.add(key)

    def connected(self, *, after_a_gap: bool) -> None:
        """The wire stands: others are asked what they watch, and told what is watched here.

        After a gap everybody looks at the store, here and where something was sent that may not have come.
        """
        watched = self._listeners.keys()
        with self._lock:
            self._must_greet = True
            self._unannounced.update(watched)
            for key in self._unconfirmed:
                self._queue(key, None)
            self._unconfirmed = ()
        if after_a_gap:
            for key in watched:
                self._listeners.tell(key, None)

    def due(self) -> float | None:
        """In how many seconds there is something to send; None: not before somebody publishes or watches."""
        with self._lock:
            if self._outbox or self._unannounced or self._must_greet:
                return 0.0
            if not self._listeners:
                return None
            return max(0.0, self._next_announcement - self._clock())

    def take(self) -> list[str]:
        """The payloads to send now. `sent` tells that they were; `connected` before that, that it is not known."""
        with self._lock:
            now = self._clock()
            fresh, self._unannounced = self._unannounced, set()
            greets, self._must_greet = self._must_greet, False
            outbox, self._outbox, self._waiting = self._outbox, {}, 0
            self._unconfirmed = tuple(outbox)
            everything = now >= self._next_announcement
            if everything:
                self._next_announcement = now + self._announce_seconds
        notes = [encoding.HELLO] if greets else []
        believed = self._announce_seconds * VALIDITY_FACTOR
        watched = self._listeners.keys() if everything else tuple(key for key in fresh if key in self._listeners)
        notes += (encoding.watched(key, believed, fresh=key in fresh) for key in watched)
        for key, news in outbox.items():
            notes += encoding.signal_notes(key, news)
        return list(encoding.pack(self._sender, notes, self._numbers))

    def sent(self) -> None:
        with self._lock:
            self._unconfirmed = ()

    def receive(self, payload: bytes) -> None:
        """Does what a payload of another process says. Does not raise, whatever it is."""
        for note in encoding.unpack(payload, own=self._sender):
            match note.kind:
                case "hello":
                    with self._lock:
                        self._next_announcement = 0.0
                case "watched":
                    self._note_remote_watch(note)
                case "changed":
                    self._listeners.tell(note.key, None)
                case "partial" if note.key in self._listeners and (event := encoding.event_of(note.raw)):
                    self._listeners.tell(note.key, event)

    def _note_remote_watch(self, note: encoding.Notification) -> None:
        with self._lock:
            now = self._clock()
            known = self._is_watched(note.key, now)
            if not known and len(self._remote_watches) >= REMOTE_WATCHES:
                self._remote_watches = {key: until for key, until in self._remote_watches.items() if until > now}
                if len(self._remote_watches) >= REMOTE_WATCHES:
                    return
            self._remote_watches[note.key] = max(now + note.seconds, self._remote_watches.get(note.key, 0.0))
            # It may have looked before the last change and be known only since.
            if (note.fresh or not known) and now - self._recent.get(note.key, -math.inf) < RECENT_SECONDS:
                self._queue(note.key, None)

    def _is_watched(self, key: SessionKey, now: float) -> bool:
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

    def _queue(self, key: SessionKey, item: Signal) -> None:
        news = self._outbox.setdefault(key, SignalQueue())
        before = len(news)
        news.put(item)
        self._waiting += len(news) - before
        if self._waiting > OUTBOX_LENGTH:
            self._waiting -= len(self._outbox.pop(next(iter(self._outbox))))
