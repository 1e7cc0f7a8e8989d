"""Words, pairs of words and runs of letters as numbers."""

import subprocess
import sys

import numpy as np
import pytest

from turnwise.matching.lexical import PLACES, READ_CHARACTERS, Lexicon

TEXTS = ("where is my parcel", "cancel my order", "what is the weather", "my parcel is late", "")


@pytest.fixture
def lexicon() -> Lexicon:
    return Lexicon.of(TEXTS)


def cosine(lexicon: Lexicon, left: str, right: str) -> float:
    rows = lexicon.dense([left, right])
    return float(rows[0] @ rows[1])


def test_a_row_has_length_one_and_a_text_without_a_gram_none(lexicon: Lexicon) -> None:
    assert np.linalg.norm(lexicon.dense([*TEXTS, " \u200b ", "a"]), axis=1) == pytest.approx([1, 1, 1, 1, 0, 0, 1], abs=0.05)


def test_a_row_is_the_same_alone_and_among_others(lexicon: Lexicon) -> None:
    together = lexicon.dense(TEXTS)
    for row, text in enumerate(TEXTS):
        assert np.array_equal(lexicon.dense([text])[0], together[row])
        _, places, values = lexicon.rows([text])
        assert together[row] == pytest.approx(np.bincount(places, values, PLACES), abs=1e-6)


def test_case_and_outer_space_say_nothing(lexicon: Lexicon) -> None:
    """C2."""
    assert cosine(lexicon, "Where  is MY parcel", " where is my parcel\n") == pytest.approx(1.0)


def test_a_slip_of_the_keys_leaves_much_in_common(lexicon: Lexicon) -> None:
    assert cosine(lexicon, "where is my parcel", "where is my parcle") > 0.5
    assert cosine(lexicon, "where is my parcel", "book two seats") < 0.2


def test_the_order_of_words_says_something(lexicon: Lexicon) -> None:
    assert cosine(lexicon, "cancel order", "order cancel") < 0.999


def test_a_rare_word_weighs_more_than_a_common_one() -> None:
    lexicon = Lexicon.of([f"please show item{number} now" for number in range(50)])
    assert cosine(lexicon, "please ticket", "ticket") > cosine(lexicon, "please ticket", "please")


@pytest.mark.parametrize("text", ["\ud800", "\u202e\u200f", "🙂" * 50, "ß\u0130ı", "\x00\n\r", "a" * 100_000, "Ω mega"])
def test_any_text_is_allowed(lexicon: Lexicon, text: str) -> None:
    assert np.isfinite(lexicon.dense([text])).all()


def test_what_comes_after_the_limit_is_not_read(lexicon: Lexicon) -> None:
    long = "word " * READ_CHARACTERS
    assert cosine(lexicon, long, long + "another thing") == pytest.approx(1.0)


def test_another_process_finds_the_same_places(lexicon: Lexicon) -> None:
    program = f"from turnwise.matching.lexical import Lexicon; print(Lexicon.of({TEXTS!r}).rows(['my parcel']).places.tolist())"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60).stdout
    assert said.strip() == str(lexicon.rows(["my parcel"]).places.tolist())
