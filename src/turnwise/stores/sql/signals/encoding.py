"""The wire format of signals between processes: JSON notifications, several to a payload. Incoming payloads are validated."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from turnwise.facts.content import TextPart
from turnwise.facts.events import NO_ACTIONS, Event
from turnwise.facts.sessions import SessionKey

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


def watched(key: SessionKey, seconds: float, *, fresh: bool) -> str:
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
