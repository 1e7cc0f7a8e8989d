"""One form for texts that read the same (C2)."""

import time
import unicodedata

import pytest
from hypothesis import given, settings, strategies as st

from turnwise.matching.normalize import MARKS_IN_A_ROW, legible, normalize, with_few_marks

ANY_TEXT = st.text(st.characters(), max_size=60)  # with lone surrogates


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("", ""),
        ("  a \t\r\n b\u00a0\u3000c  ", "a b c"),
        ("or\u200bder\ufeff", "order"),
        ("nul\x00 bell\x07", "nul bell"),
        ("line\x85break\u2028here", "line break here"),
        ("Ｏｒｄｅｒ ﬁne ①", "Order fine 1"),
        ("cafe\u0301", "café"),
        ("e\u200d\u0301", "é"),
        ("what???!!! ok...", "what?! ok."),
        ("a -- b == c", "a -- b == c"),
        ("❤\ufe0f", "❤"),
        ("half \ud83d here", "half \ufffd here"),
        ("MiXed Straße", "MiXed Straße"),
    ],
)
def test_what_carries_no_meaning_goes(text: str, plain: str) -> None:
    """C2"""
    assert normalize(text) == plain


def test_folding_ignores_case() -> None:
    """C2"""
    assert normalize("MiXed STRASSE Straße ΣΊΣΥΦΟΣ", fold=True) == "mixed strasse strasse σίσυφοσ"
    assert normalize("É", fold=True) == normalize("e\u0301", fold=True)


@given(ANY_TEXT, st.booleans())
@settings(max_examples=100)
def test_again_changes_nothing_and_the_result_can_be_encoded(text: str, fold: bool) -> None:
    """C2"""
    once = normalize(text, fold=fold)
    assert normalize(once, fold=fold) == once
    assert once.encode().decode() == once
    assert once == once.strip()
    assert "  " not in once


def test_it_is_linear_in_practice() -> None:
    began = time.process_time()
    normalize("e" + "\u0301\u0323" * 5_000)
    assert time.process_time() - began < 10


def test_symbols_stand_apart_from_words_and_letters_of_any_script_do_not() -> None:
    """C2: "flight✈️" is the word flight, and a plane."""
    assert legible("book a flight✈️now 👍🏽ok") == "book a flight ✈ now 👍 🏽 ok"
    assert legible("naïve заказ 注文 don't") == "naïve заказ 注文 don't"
    assert legible("  plain\n text ") == "plain text"


@given(ANY_TEXT)
@settings(max_examples=100)
def test_what_is_legible_stays_as_it_is(text: str) -> None:
    """C2"""
    assert legible(legible(text)) == legible(text)


MARKS = st.text(st.sampled_from("a漢\u0300\u0315\u0344\u3099\uff9e\u0f73\u200b\x01👩é"), max_size=300)


@settings(deadline=None)
@given(MARKS | st.text(st.sampled_from("\u0300\u0315\uff9e"), min_size=40, max_size=200))
def test_marks_in_a_row_are_few(text: str) -> None:
    """J1: to sort them takes their number squared. What is cut once stays so; a text with few stays as it is."""
    cut = with_few_marks(text)
    run = longest = 0
    for char in cut:
        run = run + 1 if unicodedata.combining(unicodedata.normalize("NFKD", char)[0]) else 0
        longest = max(longest, run)
    assert longest <= MARKS_IN_A_ROW
    assert with_few_marks(cut) == cut
    for fold in (False, True):
        plain = normalize(text, fold=fold)
        assert normalize(plain, fold=fold) == plain


def test_every_mark_is_counted() -> None:
    """Also what only its decomposition shows to be one, and none of them decomposes to many."""
    for code in range(0x110000):
        apart = unicodedata.normalize("NFKD", chr(code))
        if unicodedata.combining(apart[0]):
            assert len(apart) <= 3
            assert len(with_few_marks(chr(code) * 31)) == MARKS_IN_A_ROW, hex(code)
