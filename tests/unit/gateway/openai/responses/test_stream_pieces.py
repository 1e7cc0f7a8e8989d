"""The same pieces, however a text comes."""

from hypothesis import given, strategies as st

from turnwise.gateway.openai.responses.stream import OpenText, pieces_of

TEXTS = st.text(st.sampled_from("ab \n\t,。字🙂") | st.characters(exclude_categories=["Cs"]), max_size=80)


@given(st.lists(TEXTS, max_size=12), st.booleans())
def test_pieces_follow_from_the_text_alone(parts: list[str], counted: bool) -> None:
    whole, coming, told, offset = "".join(parts), OpenText(), list[str](), 0
    for part in parts:
        told += coming.feed(part, offset if counted else None)
        offset += len(part)
    assert [*told, *coming.rest(whole)] == list(pieces_of(whole))
    assert "".join(pieces_of(whole)) == whole


def test_a_piece_is_a_word_as_a_rule() -> None:
    assert list(pieces_of("It rains, internationally.  ")) == ["It", " rains,", " internat", "ionally.", "  "]
    assert list(pieces_of("")) == []


def test_what_leaves_a_gap_comes_with_the_whole() -> None:
    coming = OpenText()
    assert coming.feed("one two ", 0) == ["one", " two"]
    assert coming.feed("four ", 14) == []
    assert coming.rest("one two three four ") == [" three", " four", " "]


def test_what_came_twice_counts_once() -> None:
    coming = OpenText()
    assert coming.feed("one two ", 0) == ["one", " two"]
    assert coming.feed("two three ", 4) == [" three"]


def test_a_whole_that_begins_otherwise_has_no_rest() -> None:
    coming = OpenText()
    coming.feed("one two ", 0)
    assert coming.rest("withheld") == []
    assert coming.rest("one two") == []
