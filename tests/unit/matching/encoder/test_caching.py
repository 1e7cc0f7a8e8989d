"""Texts that come again are not encoded again."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray

from turnwise.matching.encoder.caching import CachingEncoder
from turnwise.ports.encoder import Encoder


class Counting:
    """Encodes a text as its length and a one, and keeps what it was asked for."""

    fingerprint, dimensions, is_local = "counting", 2, False

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.append(list(texts))
        rows = np.array([[len(text), 1] for text in texts], np.float32).reshape(-1, 2)
        unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


def test_only_what_is_not_remembered_is_asked_for_and_once() -> None:
    counting = Counting()
    encoder: Encoder = CachingEncoder(counting)
    first = encoder.encode(["a", "bb", "a"])
    again = encoder.encode(["bb", "ccc", "a", "ccc"])
    assert counting.asked == [["a", "bb"], ["ccc"]]
    assert np.array_equal(first, Counting().encode(["a", "bb", "a"]))
    assert np.array_equal(again, Counting().encode(["bb", "ccc", "a", "ccc"]))
    assert encoder.encode([]).shape == (0, 2)
    assert (encoder.fingerprint, encoder.dimensions, encoder.is_local) == ("counting", 2, False)


def test_what_was_used_last_is_kept() -> None:
    counting = Counting()
    encoder = CachingEncoder(counting, capacity=2)
    for text in ("a", "bb", "a", "ccc", "a", "bb"):
        encoder.encode([text])
    assert counting.asked == [["a"], ["bb"], ["ccc"], ["bb"]]


@pytest.mark.parametrize("capacity", [0, 1])
def test_more_texts_than_it_keeps(capacity: int) -> None:
    counting = Counting()
    encoder = CachingEncoder(counting, capacity=capacity)
    assert np.array_equal(encoder.encode(["a", "bb", "ccc"]), Counting().encode(["a", "bb", "ccc"]))
    encoder.encode(["ccc"])
    assert len(counting.asked) == 2 - capacity


def test_very_long_texts_are_not_kept() -> None:
    counting = Counting()
    encoder = CachingEncoder(counting)
    for _ in range(2):
        encoder.encode(["a" * 2_001])
    assert len(counting.asked) == 2


def test_the_rows_are_the_callers_own() -> None:
    encoder = CachingEncoder(Counting())
    encoder.encode(["a"])[:] = 7
    encoder.encode(["a"])[:] = 8
    assert np.array_equal(encoder.encode(["a"]), Counting().encode(["a"]))


def test_a_failure_is_passed_on_and_not_remembered() -> None:
    class Failing(Counting):
        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            if not self.asked:
                self.asked.append([])
                raise OSError("away")
            return super().encode(texts)

    encoder = CachingEncoder(Failing())
    with pytest.raises(OSError, match="away"):
        encoder.encode(["a"])
    assert encoder.encode(["a"]).shape == (1, 2)


def test_threads_share_one() -> None:
    encoder = CachingEncoder(Counting(), capacity=5)
    texts = ["a" * (number % 11) for number in range(500)]
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda text: encoder.encode([text])[0], texts))
    assert np.array_equal(np.stack(rows), Counting().encode(texts))
