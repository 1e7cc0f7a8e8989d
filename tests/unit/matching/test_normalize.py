"""One form for texts that read the same (C2)."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.matching.normalize import legible, normalize

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
