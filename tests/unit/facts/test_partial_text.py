"""Texts that arrive in pieces."""

from random import Random

from hypothesis import given, strategies as st

from turnwise.facts.content import PartialText


@given(st.text(max_size=60), st.booleans(), st.randoms(use_true_random=False))
def test_the_pieces_make_the_text_however_it_is_cut(text: str, counted: bool, random: Random) -> None:
    partial, told, at = PartialText(), "", 0
    while at < len(text):
        end = random.randint(at + 1, len(text))
        told += partial.add(text[at:end], at if counted else None)
        assert (partial.text, partial.length) == (told, len(told))
        at = end
    assert told == text


@given(st.text(max_size=60), st.randoms(use_true_random=False))
def test_whatever_comes_twice_late_or_never_it_is_the_beginning_of_the_text(text: str, random: Random) -> None:
    partial, told = PartialText(), ""
    for _ in range(random.randint(0, 20)):
        begin = random.randint(0, len(text))
        told += partial.add(text[begin : random.randint(begin, len(text))], begin)
        assert text.startswith(told)
        assert partial.text == told


def test_a_piece_without_a_position_follows_the_one_before() -> None:
    """Also one that left a gap; it is not taken for the text that is missing."""
    partial = PartialText()
    assert [partial.add("ab", 0), partial.add("ef", 4), partial.add("gh"), partial.add("cdef", 2)] == ["ab", "", "", "cdef"]
    assert (partial.add("gh"), partial.text) == ("gh", "abcdefgh")
