"""A text as rules read it."""

from hypothesis import given, settings, strategies as st

from turnwise.guardrails.replacing import LETTER, OTHER, normalized

ANY = st.text(st.characters(), max_size=200)


def test_what_looks_like_ascii_is_read_as_ascii() -> None:
    assert normalized("４１ – “x”\u00a0²").data == b'41 - "x" 2'


def test_other_letters_and_signs_have_one_byte_each() -> None:
    assert normalized("é漢☂").data == bytes([LETTER, LETTER, OTHER])


def test_invisible_characters_are_left_out_and_belong_to_what_they_stand_in() -> None:
    reading = normalized("a\u200bbc\u200b")
    assert reading.data == b"abc"
    assert reading.span(0, 2) == (0, 3)


@settings(deadline=None)
@given(ANY)
def test_any_text_can_be_read(text: str) -> None:
    """Also such as cannot be stored; every byte has its place."""
    reading = normalized(text)
    if reading.places is None:
        assert len(reading.data) == len(text)
    else:
        assert len(reading.data) == len(reading.places)
        assert list(reading.places) == sorted(set(reading.places))
