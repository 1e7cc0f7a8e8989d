"""Pieces of answers that come over several connections."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given, strategies as st

from turnwise.client.stream import SeenEvents
from turnwise.facts.content import Content, ThinkingPart, text_content
from turnwise.facts.events import Event


def event(**fields: Any) -> Event:
    return Event(id="e1", author="a", invocation_id="i1", created_at=datetime(2026, 1, 1, tzinfo=UTC), **fields)


def piece(text: str, offset: int) -> Event:
    return event(content=text_content(text), partial=True, offset=offset)


def shown(*events: Event | None) -> list[tuple[int | None, str]]:
    return [(each.offset, each.text) for each in events if each is not None]


@given(st.lists(st.text(min_size=1, max_size=5), max_size=6), st.lists(st.integers(0, 6), max_size=4), st.data())
def test_however_often_it_begins_anew_no_letter_comes_twice(texts: list[str], cuts: list[int], data: st.DataObject) -> None:
    """Pieces are cut as the sender likes, anew each time; all that is shown fits together."""
    whole, pieces, got = "".join(texts), SeenEvents(), ""
    for upto in [*cuts, len(texts)]:
        sent, offset = texts[:upto], 0
        while offset < len("".join(sent)):
            end = data.draw(st.integers(offset + 1, len("".join(sent))))
            new = pieces.unseen_part(piece(whole[offset:end], offset), 0)
            if new is not None:
                assert new.offset == len(got)
                got += new.text
            offset = end
        pieces.on_disconnect()
    assert got == whole


def test_what_is_joined_late_says_where_it_belongs() -> None:
    """After a cut the sender may know no more of the beginning: then a piece is missing, until the whole comes."""
    pieces = SeenEvents()
    first = pieces.unseen_part(piece("you ", 0), 0)
    pieces.on_disconnect()
    assert shown(first, pieces.unseen_part(piece("hi", 9), 0)) == [(0, "you "), (9, "hi")]


def test_pieces_without_text_are_not_shown_again() -> None:
    thought = event(content=Content(parts=(ThinkingPart(text="hm"),)), partial=True, offset=0)
    pieces = SeenEvents()
    assert [pieces.unseen_part(thought, 0), pieces.unseen_part(thought, 0)] == [thought, thought]
    pieces.on_disconnect()
    assert pieces.unseen_part(thought, 0) is None


def test_a_stored_event_comes_once_and_no_piece_of_it_any_more() -> None:
    pieces, stored = SeenEvents(), event(sequence=3)
    assert pieces.unseen_part(stored, 2) is stored
    assert pieces.unseen_part(stored, 3) is None
    assert pieces.unseen_part(piece("you ", 0), 3) is None
