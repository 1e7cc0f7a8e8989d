import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from turnwise.facts.content import Content, DataPart, TextPart, text_content
from turnwise.facts.events import Actions, ErrorInfo, Event
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql import signal_mailbox
from turnwise.testing.signals_suite import fresh_key, piece

KEY = SessionKey("shop", "ann", "s1")


def packed(notes: Iterable[str]) -> list[str]:
    return list(signal_mailbox.pack("me", notes, itertools.count()))


def crossed(notes: Iterable[str]) -> list[signal_mailbox.Notification]:
    """What another process understands."""
    payloads = packed(notes)
    assert all(len(payload.encode()) <= signal_mailbox.PAYLOAD_BYTES for payload in payloads)
    return [note for payload in payloads for note in signal_mailbox.unpack(payload.encode(), own="you")]


def news(*items: Event | None) -> list[Event | None]:
    """What of the news of a session another process hears."""
    notes = crossed(signal_mailbox.signal_notes(KEY, items))
    assert {note.key for note in notes} <= {KEY}
    return [signal_mailbox.event_of(note.raw) if note.kind == "partial" else None for note in notes]


def test_notes_are_understood() -> None:
    notes = [
        signal_mailbox.HELLO,
        signal_mailbox.watch_note(KEY, 7.5, fresh=True),
        signal_mailbox.watch_note(fresh_key(), 1, fresh=False),
    ]
    hello, first, second = crossed(notes)
    assert hello.kind == "hello"
    assert (first.kind, first.key, first.seconds, first.fresh) == ("watched", KEY, 7.5, True)
    assert (second.seconds, second.fresh) == (1.0, False)


def test_pieces_of_one_text_travel_together() -> None:
    """E7"""
    assert news(piece("he"), piece("ll", 2), piece("o", 4)) == [piece("hello")]
    assert news(piece("he", 7), piece("llo", 9), None, None, piece("!", 12)) == [piece("hello", 7), None, None, piece("!", 12)]


@pytest.mark.parametrize(
    "other",
    [
        piece("c", 1, id_="event-2"),
        piece("c", 1, author="sales"),
        piece("c", 2),
        piece("c", 1).replace(attempt=2),
        piece("c", 1).replace(offset=None),
        piece("c", 1).replace(actions=Actions(next="sales")),
        piece("c", 1).replace(error=ErrorInfo(code="agent.failed", message="no")),
        piece("c", 1).replace(content=Content(parts=(TextPart(text="c"), TextPart(text="d")))),
        piece("c", 1).replace(content=Content(parts=(DataPart(data={"a": None}),))),
        piece("c", 1).replace(content=None),
    ],
)
def test_what_is_not_one_text_stays_apart(other: Event) -> None:
    assert news(piece("a"), other, piece("a")) == [piece("a"), other, piece("a")]


def test_texts_without_offsets_are_joined_too() -> None:
    a, b = (piece(text).replace(offset=None) for text in "ab")
    assert news(a, b) == [a.replace(content=text_content("ab"))]


@pytest.mark.parametrize("letter", ["a", "é", "😀", '"', "\\", "\n", "\x01", "\x00"])
def test_a_long_text_goes_in_pieces(letter: str) -> None:
    """E7: none is longer than PostgreSQL takes, and each says where it belongs."""
    long = piece(letter * 20_000, 5)
    heard = news(long)
    assert len(heard) > 1
    assert list(signal_mailbox.join_partials(heard)) == [long]


TEXTS = st.text(max_size=30) | st.integers(0, 3_000).map(lambda n: "ä" * n)


@given(texts=st.lists(st.none() | TEXTS, max_size=20))
def test_any_news_arrives_in_order(texts: list[str | None]) -> None:
    """E7: the same text, and the same changes between."""
    items: list[Event | None] = []
    offset = 0
    for text in texts:
        items.append(None if text is None else piece(text, offset))
        offset += len(text or "")
    assert list(signal_mailbox.join_partials(news(*items))) == list(signal_mailbox.join_partials(items))


def test_what_cannot_be_carried_is_left_out() -> None:
    large = piece("").replace(content=Content(parts=(DataPart(data="x" * 9_000),)))
    broken = piece("", id_="event-2").replace(content=Content(parts=(TextPart.model_construct(text="\ud800"),)))
    assert news(piece("a"), large, broken, piece("b", 1)) == [piece("a"), piece("b", 1)]
    for key in (KEY._replace(id="x" * 9_000), KEY._replace(user="\ud800")):
        assert (
            packed([signal_mailbox.watch_note(key, 1, fresh=True), *signal_mailbox.signal_notes(key, [None, piece("a")])]) == []
        )


def test_equal_payloads_differ() -> None:
    """PostgreSQL drops the second of two that are equal in one transaction."""
    notes = [signal_mailbox.watch_note(KEY._replace(id="x" * 7_000), 1, fresh=False)] * 3
    payloads = packed(notes)
    assert len(payloads) == len(set(payloads)) == 3


def test_own_payloads_are_ignored() -> None:
    (payload,) = packed([signal_mailbox.HELLO])
    assert signal_mailbox.unpack(payload.encode(), own="me") == []
    assert signal_mailbox.unpack(payload.encode(), own="you") == [signal_mailbox.Notification("hello")]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"hello",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"[" * 7_000,
        b'{"v":1}',
        b'{"v":2,"s":"x","n":[{"k":"hello"}]}',
        b'{"v":1,"s":"x","n":7}',
        b'{"v":1,"s":"x","n":[7,null,[],{},"hello",{"k":"shutdown","key":["a","b","c"]}]}',
        b'{"v":1,"s":"x","n":[{"k":"changed"},{"k":"changed","key":["a","b"]},{"k":"changed","key":["a","b",3]}]}',
        b'{"v":1,"s":"x","n":[{"k":"watched","key":["a","b","c"]},{"k":"watched","key":["a","b","c"],"for":"long","fresh":1}]}',
        b'{"v":1,"s":"x","n":[{"k":"watched","key":["a","b","c"],"for":NaN,"fresh":true}]}',
        b'{"v":1,"s":"x","n":[{"k":"watched","key":["a","b","c"],"for":1e99,"fresh":true}]}',
        b'{"v":1,"s":"x","n":[{"k":"watched","key":["a","b","c"],"for":-1,"fresh":true}]}',
        b'{"v":1,"s":"x","n":' + b"9" * 5_000 + b"}",
    ],
)
def test_what_nobody_understands_is_ignored(payload: bytes) -> None:
    assert signal_mailbox.unpack(payload, own="me") == []


def test_a_note_that_is_not_understood_takes_none_with_it() -> None:
    parcel = {
        "v": 1,
        "s": "x",
        "n": [{"k": "new"}, {"k": "changed", "key": list(KEY), "more": 1}, 7, {"k": "hello"}],
        "more": 1,
    }
    assert [note.kind for note in signal_mailbox.unpack(json.dumps(parcel).encode(), own="me")] == ["changed", "hello"]


def without(**changes: Any) -> dict[str, Any]:
    return {**json.loads(piece("a").model_dump_json()), **changes}


@pytest.mark.parametrize(
    "raw",
    [None, "x", {}, without(partial=False), without(sequence=7), without(offset="x"), without(content={"parts": 7})],
)
def test_what_is_no_partial_event_is_none(raw: object) -> None:
    """A notification cannot pass for something stored."""
    assert signal_mailbox.event_of(raw) is None


def test_an_event_of_a_newer_version_keeps_its_fields() -> None:
    event = signal_mailbox.event_of(without(mood="fine"))
    assert event is not None
    assert json.loads(event.model_dump_json())["mood"] == "fine"
