"""What is written on the wire between processes: notes in JSON, several to a payload, and nothing taken on trust."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from turnwise.facts.content import TextPart
from turnwise.facts.events import NO_ACTIONS, Event
from turnwise.facts.sessions import SessionKey

VERSION = 1
PAYLOAD_BYTES = 7_999
"""PostgreSQL takes payloads shorter than 8,000 bytes."""
ROOM = PAYLOAD_BYTES - 100
"""What is left for notes beside version, sender and number."""
PIECE = 1_000
"""Characters of text in one note: even at six bytes each, as control characters have in JSON, a note fits."""
WATCH_SECONDS = 60.0
"""The longest that one announcement is believed."""

HELLO = '{"k":"hello"}'
"""Somebody began to listen, and asks what is watched."""

Kind = Literal["hello", "watched", "changed", "partial"]


class Notification(NamedTuple):
    """One thing a process tells the others.

    watched: it has a watch for the session, to be believed for `seconds`; fresh: somebody began to watch just now.
    changed, partial: as in `Signals`; `raw` is the event as it came, for `event_of`.
    """

    kind: Kind
    key: SessionKey = SessionKey("", "", "")
    seconds: float = 0.0
    fresh: bool = False
    raw: object = None


def watched(key: SessionKey, seconds: float, *, fresh: bool) -> str:
    return _text({"k": "watched", "key": key, "for": seconds, "fresh": fresh})


def signal_notes(key: SessionKey, items: Iterable[Event | None]) -> Iterator[str]:
    """Notes of what happened in a session, in order, with as few partial events as carry the same text."""
    for item in join_partials(items):
        if item is None:
            yield _text({"k": "changed", "key": key})
        else:
            yield from (note for piece in split_partial(item) if (note := _partial(key, piece)))


def join_partials(items: Iterable[Event | None]) -> Iterator[Event | None]:
    """The same news with adjacent pieces of one text put together."""
    run: list[Event] = []
    for item in items:
        if run and (item is None or not _follows(run[-1], item)):
            yield _join(run)
            run = []
        if item is not None and _sole_text(item) is not None:
            run.append(item)
        else:
            yield item
    if run:
        yield _join(run)


def split_partial(event: Event) -> Iterator[Event]:
    """The event, or several that carry its text in pieces that fit."""
    text = _sole_text(event)
    if text is None or len(text) <= PIECE:
        yield event
        return
    for at in range(0, len(text), PIECE):
        offset = None if event.offset is None else event.offset + at
        yield _with_text(event, text[at : at + PIECE], offset)


def pack(sender: str, notes: Iterable[str], numbers: Iterator[int]) -> Iterator[str]:
    """Payloads with the notes in order. A note that fits into none, or is no valid Unicode, is left out.

    Each payload has a number: PostgreSQL drops what is said twice in one transaction.
    """
    group: list[str] = []
    left = ROOM
    for note in notes:
        size = _size(note) + 1
        if size > ROOM:
            continue
        if size > left:
            yield _payload(sender, group, next(numbers))
            group, left = [], ROOM
        group.append(note)
        left -= size
    if group:
        yield _payload(sender, group, next(numbers))


def unpack(payload: bytes, *, own: str) -> list[Notification]:
    """The notes of a payload, without those that cannot be understood; none of one's own or of another version."""
    try:
        parcel = json.loads(payload)
        if parcel["v"] != VERSION or parcel["s"] == own:
            return []
        return [note for raw in parcel["n"] if (note := _note(raw)) is not None]
    except (ValueError, TypeError, LookupError, RecursionError):
        # Whoever may use the database can send anything.
        return []


def event_of(raw: object) -> Event | None:
    """The partial event that a note holds; None when it is none."""
    try:
        event = Event.model_validate_json(json.dumps(raw))
    except (ValueError, RecursionError):
        return None
    # Only the store says what was stored.
    return event if event.partial and event.sequence is None else None


def _note(raw: Any) -> Notification | None:
    try:
        if raw["k"] == "hello":
            return Notification("hello")
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
    try:
        text = event.model_dump_json(exclude={"actions"} if event.actions == NO_ACTIONS else None)
    except ValueError:
        # What cannot be written in JSON cannot be stored either: the store will say so.
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
    """The text of an event that holds one piece of text and nothing else."""
    parts = event.content.parts if event.content else ()
    if len(parts) != 1 or event.error or event.actions != NO_ACTIONS:
        return None
    part = parts[0]
    return part.text if isinstance(part, TextPart) and not part.model_extra else None


def _follows(last: Event, event: Event) -> bool:
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
    content = event.content.model_copy(update={"parts": (TextPart(text=text),)})
    return event.model_copy(update={"content": content, "offset": offset})
