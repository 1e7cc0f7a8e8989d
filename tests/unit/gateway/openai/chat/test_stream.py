"""Pieces of an answer, joined, are the answer."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given, strategies as st

from turnwise.facts.content import Content, TextPart, text_content
from turnwise.facts.events import Actions, Await, Event
from turnwise.gateway.openai.chat.stream import AnswerText
from turnwise.gateway.shared.stream import joined_text

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def event(id_: str, text: str | Content, **more: Any) -> Event:
    content = text_content(text) if isinstance(text, str) else text
    fields: dict[str, Any] = {"author": "a", "invocation_id": "i", "branch": "1", **more}
    return Event(id=id_, created_at=NOW, content=content, **fields)


def piece(id_: str, text: str, **more: Any) -> Event:
    return event(id_, text, partial=True, **more)


def told(*events: Event) -> str:
    telling = AnswerText()
    return "".join([*map(telling.feed, events), telling.rest()])


def test_what_was_told_in_pieces_is_not_told_again() -> None:
    assert told(piece("1", "ab", offset=0), piece("1", "cd", offset=2), event("1", "abcdef")) == "abcdef"


def test_a_line_break_stands_between_utterances() -> None:
    assert told(event("1", "one"), piece("2", "tw"), event("2", "two"), event("3", ""), event("4", "four")) == "one\ntwo\nfour"


def test_users_private_and_labelled_words_are_not_told() -> None:
    hidden = [
        event("1", "x", author="user"),
        event("2", "x", branch="1/>b#1"),
        piece("3", "x", branch="1/>b#1"),
        event("4", "x", scope=("task",)),
        piece("5", "x", scope=("task",)),
    ]
    assert told(*hidden) == ""
    question = event("6", "Which?", scope=("task",), actions=Actions(awaits=Await(id="w")))
    assert told(*hidden, question) == "Which?"


def test_one_speaks_at_a_time() -> None:
    """A41."""
    left, right = {"branch": "1/~l"}, {"branch": "1/~r"}
    said = told(piece("1", "le", **left), piece("2", "ri", **right), event("2", "right", **right), event("1", "left", **left))
    assert said == "right\nleft"
    # Whoever is heard first comes first; what others say meanwhile waits for the end of that.
    said = told(piece("1", "le"), piece("2", "ri", branch="2"), event("2", "right", branch="2"), event("1", "left"))
    assert said == "left\nright"
    assert told(piece("1", "le"), event("2", "right", branch="2")) == "le\nright"


def test_what_broke_off_stays_and_what_counts_follows() -> None:
    assert told(piece("1", "It is ab"), piece("2", "It is"), event("2", "It is above.")) == "It is ab\nIt is above."
    assert told(piece("1", "It is ab"), event("2", "It is above.")) == "It is ab\nIt is above."


def test_pieces_that_were_lost_on_the_way_come_with_the_whole() -> None:
    assert told(piece("1", "ab", offset=0), piece("1", "ef", offset=4), event("1", "abcdef")) == "abcdef"
    assert told(piece("1", "cd", offset=2), event("1", "abcd")) == "abcd"


def test_parts_of_a_text_that_came_without_a_break_between() -> None:
    whole = event("1", Content(parts=(TextPart(text="one"), TextPart(text="two"), TextPart(text="three"))))
    assert told(piece("1", "one"), piece("1", "two"), whole) == "onetwo\nthree"


def test_a_whole_that_begins_otherwise_is_told_too() -> None:
    assert told(piece("1", "abc"), event("1", "xyz")) == "abc\nxyz"


@given(st.lists(st.lists(st.text(st.sampled_from("ab \n"), min_size=1), min_size=1), min_size=1), st.data())
def test_pieces_joined_are_the_text(utterances: list[list[str]], data: st.DataObject) -> None:
    heard, whole = [], []
    for number, pieces in enumerate(utterances):
        shown = data.draw(st.integers(0, len(pieces)))
        offset = 0
        for text in pieces[:shown]:
            heard.append(piece(str(number), text, offset=offset))
            offset += len(text)
        whole.append(event(str(number), "".join(pieces)))
        heard.append(whole[-1])
    assert told(*heard) == joined_text(whole)
