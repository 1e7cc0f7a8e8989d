"""What one process knows of the others' watches, what it has to tell them, and what it hears from them."""

import itertools
import math
import threading
import time
import uuid
from collections.abc import Callable

from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql.signals import encoding
from turnwise.stores.sql.signals.local import Ears, Item, News

BELIEVED = 2.5
"""An announcement is believed for that many times the seconds until the next."""
RECENT_SECONDS = 5.0
"""A change that is no older may have been missed by one who has just begun to watch."""
RECENT_KEPT = 1_000
WATCHES_KEPT = 10_000
OUTBOX_KEPT = 10_000


class Exchange:
    """Between the ears of this process and the wire. May be used from any thread; never waits for anybody."""

    def __init__(self, ears: Ears, announce_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._ears, self._announce_seconds, self._clock = ears, announce_seconds, clock
        self._sender = uuid.uuid4().hex
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._elsewhere: dict[SessionKey, float] = {}
        """Watched by others, until when."""
        self._recent: dict[SessionKey, float] = {}
        """Changed lately and when, oldest first."""
        self._outbox: dict[SessionKey, News] = {}
        self._waiting = 0
        self._unsure: tuple[SessionKey, ...] = ()
        """What was given out to be sent, and is not known to be."""
        self._fresh: set[SessionKey] = set()
        """Watched here, and not announced yet."""
        self._next_announcement = 0.0
        self._greets = False

    def publish(self, key: SessionKey, item: Item) -> bool:
        """Queues news for those who watch elsewhere; False when nobody does."""
        with self._lock:
            now = self._clock()
            if item is None:
                self._remember(key, now)
            if not self._is_watched(key, now):
                return False
            self._queue(key, item)
            return True

    def opened(self, key: SessionKey) -> None:
        """Somebody here begins to watch."""
        with self._lock:
            self._fresh.add(key)

    def connected(self, *, after_a_gap: bool) -> None:
        """The wire stands: others are asked what they watch, and told what is watched here.

        After a gap everybody looks at the store, here and where something was sent that may not have come.
        """
        watched = self._ears.keys()
        with self._lock:
            self._greets = True
            self._fresh.update(watched)
            for key in self._unsure:
                self._queue(key, None)
            self._unsure = ()
        if after_a_gap:
            for key in watched:
                self._ears.tell(key, None)

    def due(self) -> float | None:
        """In how many seconds there is something to send; None: not before somebody publishes or watches."""
        with self._lock:
            if self._outbox or self._fresh or self._greets:
                return 0.0
            if not self._ears:
                return None
            return max(0.0, self._next_announcement - self._clock())

    def take(self) -> list[str]:
        """The payloads to send now. `sent` tells that they were; `connected` before that, that it is not known."""
        with self._lock:
            now = self._clock()
            fresh, self._fresh = self._fresh, set()
            greets, self._greets = self._greets, False
            outbox, self._outbox, self._waiting = self._outbox, {}, 0
            self._unsure = tuple(outbox)
            everything = now >= self._next_announcement
            if everything:
                self._next_announcement = now + self._announce_seconds
        notes = [encoding.HELLO] if greets else []
        believed = self._announce_seconds * BELIEVED
        watched = self._ears.keys() if everything else tuple(key for key in fresh if key in self._ears)
        notes += (encoding.watched(key, believed, fresh=key in fresh) for key in watched)
        for key, news in outbox.items():
            notes += encoding.news(key, news)
        return list(encoding.pack(self._sender, notes, self._numbers))

    def sent(self) -> None:
        with self._lock:
            self._unsure = ()

    def hear(self, payload: bytes) -> None:
        """Does what a payload of another process says. Does not raise, whatever it is."""
        for note in encoding.unpack(payload, own=self._sender):
            match note.kind:
                case "hello":
                    with self._lock:
                        self._next_announcement = 0.0
                case "watched":
                    self._believe(note)
                case "changed":
                    self._ears.tell(note.key, None)
                case "partial" if note.key in self._ears and (event := encoding.event_of(note.raw)):
                    self._ears.tell(note.key, event)

    def _believe(self, note: encoding.Note) -> None:
        with self._lock:
            now = self._clock()
            known = self._is_watched(note.key, now)
            if not known and len(self._elsewhere) >= WATCHES_KEPT:
                self._elsewhere = {key: until for key, until in self._elsewhere.items() if until > now}
                if len(self._elsewhere) >= WATCHES_KEPT:
                    return
            self._elsewhere[note.key] = max(now + note.seconds, self._elsewhere.get(note.key, 0.0))
            # It may have looked before the last change and be known only since.
            if (note.fresh or not known) and now - self._recent.get(note.key, -math.inf) < RECENT_SECONDS:
                self._queue(note.key, None)

    def _is_watched(self, key: SessionKey, now: float) -> bool:
        until = self._elsewhere.get(key)
        if until is None:
            return False
        if until <= now:
            del self._elsewhere[key]
            return False
        return True

    def _remember(self, key: SessionKey, now: float) -> None:
        self._recent.pop(key, None)
        self._recent[key] = now
        if len(self._recent) > RECENT_KEPT:
            del self._recent[next(iter(self._recent))]

    def _queue(self, key: SessionKey, item: Item) -> None:
        news = self._outbox.setdefault(key, News())
        before = len(news)
        news.put(item)
        self._waiting += len(news) - before
        if self._waiting > OUTBOX_KEPT:
            self._waiting -= len(self._outbox.pop(next(iter(self._outbox))))
