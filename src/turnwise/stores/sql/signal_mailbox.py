"""The outgoing and incoming signals of a process, the watches of other processes, and the wire format between them.

Signals are JSON notifications, several to a payload. Incoming payloads are validated.
"""

import itertools
import json
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from turnwise.facts.content import TextPart
from turnwise.facts.events import NO_ACTIONS, Event
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql.local_signals import Listeners, Signal, SignalQueue

VALIDITY_FACTOR = 2.5
"""An announcement is valid for this many intervals between announcements."""
RECENT_SECONDS = 5.0
"""A watcher that has just begun may have missed a change that is younger than this."""
RECENT_CHANGES = 1_000
REMOTE_WATCHES = 10_000
OUTBOX_LENGTH = 10_000


Kind = Literal["hello", "all_changed", "watched", "changed", "partial"]


class Notification(NamedTuple):
    """A parsed notification of another process."""

    kind: Kind
    """`hello`: a process began to listen. `watched`: it watches the session. The others: as in `Signals`."""
    key: SessionKey = SessionKey("", "", "")
    seconds: float = 0.0
    """How long a watch is valid."""
    fresh: bool = False
    """True when the watch has just begun."""
    raw: object = None
    """The unparsed partial event, for `event_of`."""


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
        notifications = [*([HELLO] if greets else []), *([ALL_CHANGED] if wakes_all else [])]
        validity = self._announce_seconds * VALIDITY_FACTOR
        watched = self._listeners.keys() if announces_all else tuple(key for key in fresh if key in self._listeners)
        self._note_announced(watched, now)
        notifications += (watch_note(key, validity, fresh=key in fresh) for key in watched)
        for key, queued in outbox.items():
            notifications += signal_notes(key, queued)
        return list(pack(self._sender, notifications, self._numbers))

    def sent(self) -> None:
        """Confirms the payloads of the last `take`."""
        with self._lock:
            self._unconfirmed, self._is_wake_unconfirmed = (), False

    def receive(self, payload: bytes) -> None:
        """Handles a payload of another process. Does not raise; malformed payloads are ignored."""
        for notification in unpack(payload, own=self._sender):
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
                case "partial" if notification.key in self._listeners and (event := event_of(notification.raw)):
                    self._listeners.notify(notification.key, event)

    def _note_announced(self, keys: Iterable[SessionKey], now: float) -> None:
        with self._lock:
            self._announced |= dict.fromkeys(keys, now)
            if len(self._announced) > REMOTE_WATCHES:
                self._announced.clear()

    def _note_remote_watch(self, notification: Notification) -> None:
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


VERSION = 1
PAYLOAD_BYTES = 7_999
"""PostgreSQL accepts payloads of less than 8,000 bytes."""
ROOM = PAYLOAD_BYTES - 100
"""Bytes for notifications in a payload, without version, sender and number."""
PIECE = 1_000
"""Most characters of text in a notification. It fits even at six bytes each, the length of an escaped control character."""
WATCH_SECONDS = 60.0
"""Longest validity of an announced watch."""

HELLO = '{"k":"hello"}'
"""Sent by a process that begins to listen, to ask for the others' watches."""
ALL_CHANGED = '{"k":"all_changed"}'
"""Sent by a process that found a holder of leases dead."""


def watch_note(key: SessionKey, seconds: float, *, fresh: bool) -> str:
    """Encodes the announcement of a watch."""
    return _text({"k": "watched", "key": key, "for": seconds, "fresh": fresh})


def signal_notes(key: SessionKey, signals: Iterable[Event | None]) -> Iterator[str]:
    """Encodes a session's signals in order, with as few partial events as carry the same text."""
    for signal in join_partials(signals):
        if signal is None:
            yield _text({"k": "changed", "key": key})
        else:
            yield from (notification for piece in split_partial(signal) if (notification := _partial(key, piece)))


def join_partials(signals: Iterable[Event | None]) -> Iterator[Event | None]:
    """Returns the same signals with adjacent chunks of one text joined."""
    run: list[Event] = []
    for signal in signals:
        if run and (signal is None or not _follows(run[-1], signal)):
            yield _join(run)
            run = []
        if signal is not None and _sole_text(signal) is not None:
            run.append(signal)
        else:
            yield signal
    if run:
        yield _join(run)


def split_partial(event: Event) -> Iterator[Event]:
    """Returns the event, or several events with chunks of its text that fit a notification."""
    text = _sole_text(event)
    if text is None or len(text) <= PIECE:
        yield event
        return
    for at in range(0, len(text), PIECE):
        offset = None if event.offset is None else event.offset + at
        yield _with_text(event, text[at : at + PIECE], offset)


def pack(sender: str, notifications: Iterable[str], numbers: Iterator[int]) -> Iterator[str]:
    """Packs notifications into payloads, in order. One that fits no payload or is not valid Unicode is left out.

    Each payload has a number, because PostgreSQL drops duplicates within a transaction.
    """
    group: list[str] = []
    left = ROOM
    for notification in notifications:
        size = _size(notification) + 1
        if size > ROOM:
            continue
        if size > left:
            yield _payload(sender, group, next(numbers))
            group, left = [], ROOM
        group.append(notification)
        left -= size
    if group:
        yield _payload(sender, group, next(numbers))


def unpack(payload: bytes, *, own: str) -> list[Notification]:
    """Returns the valid notifications of a payload; none if it is our own or of another version."""
    try:
        message = json.loads(payload)
        if message["v"] != VERSION or message["s"] == own:
            return []
        return [notification for raw in message["n"] if (notification := _notification(raw)) is not None]
    except (ValueError, TypeError, LookupError, RecursionError):
        # Every user of the database can send arbitrary payloads.
        return []


def event_of(raw: object) -> Event | None:
    """Returns the partial event of a notification, or None when it is not valid."""
    try:
        event = Event.model_validate_json(json.dumps(raw))
    except (ValueError, RecursionError):
        return None
    # Stored events come from the store only.
    return event if event.partial and event.sequence is None else None


def _notification(raw: Any) -> Notification | None:
    """Returns a received notification; None if it is invalid."""
    try:
        if raw["k"] in ("hello", "all_changed"):
            return Notification(raw["k"])
        app, user, id_ = raw["key"]
        key = SessionKey(app, user, id_)
        if not all(isinstance(part, str) for part in key):
            return None
        match raw["k"]:
            case "watched" if 0 < raw["for"] <= WATCH_SECONDS:
                return Notification("watched", key, float(raw["for"]), bool(raw["fresh"]))
            case "changed":
                return Notification("changed", key)
            case "partial":
                return Notification("partial", key, raw=raw["event"])
    except (TypeError, LookupError, ValueError):
        pass
    return None


def _partial(key: SessionKey, event: Event) -> str | None:
    """Returns a partial event as a notification; None if it is not valid JSON."""
    try:
        text = event.model_dump_json(exclude={"actions"} if event.actions == NO_ACTIONS else None)
    except ValueError:
        # An event that is not valid JSON cannot be stored either; the store raises the error.
        return None
    return f'{{"k":"partial","key":{_text(key)},"event":{text}}}'


def _payload(sender: str, notes: Iterable[str], number: int) -> str:
    return f'{{"v":{VERSION},"s":{_text(sender)},"i":{number},"n":[{",".join(notes)}]}}'


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _size(note: str) -> int:
    try:
        return len(note.encode())
    except UnicodeEncodeError:
        return ROOM


def _sole_text(event: Event) -> str | None:
    """Returns the text of an event with one text part and nothing else, or None."""
    parts = event.content.parts if event.content else ()
    if len(parts) != 1 or event.error or event.actions != NO_ACTIONS:
        return None
    part = parts[0]
    return part.text if isinstance(part, TextPart) and not part.model_extra else None


def _follows(last: Event, event: Event) -> bool:
    """Returns whether the event goes on where the last piece ends, so that both can be sent as one."""
    mine, theirs = ((e.id, e.author, e.branch, e.attempt) for e in (last, event))
    if mine != theirs or _sole_text(event) is None:
        return False
    if last.offset is None or event.offset is None:
        return last.offset is event.offset
    return event.offset == last.offset + len(last.text)


def _join(run: list[Event]) -> Event:
    return run[0] if len(run) == 1 else _with_text(run[0], "".join(event.text for event in run), run[0].offset)


def _with_text(event: Event, text: str, offset: int | None) -> Event:
    assert event.content is not None
    content = event.content.with_parts((TextPart(text=text),))
    return event.replace(content=content, offset=offset)
