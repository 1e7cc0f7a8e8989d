"""Texts that are known beforehand are encoded once."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from words import Words

from turnwise.facts.errors import EncoderError
from turnwise.matching.disk_cache import DiskCache, text_keys
from turnwise.matching.packed_vectors import coded
from turnwise.selection.vectors import CachedEncoder, MemoryCache, packed_vectors_of, vectors_of


def silent(what: str, done: int, total: int) -> None: ...


class Fragile(Words):
    """Fails after some texts."""

    left = 200

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.left -= len(texts)
        self.broken = self.left < 0
        return super().encode(texts)


def test_each_text_has_its_row_and_each_text_is_encoded_once() -> None:
    encoder = Words()
    texts = ["one two", "three", "one two", ""]
    rows = vectors_of(texts, encoder, cache=None, progress=silent)
    assert sorted(encoder.asked) == ["", "one two", "three"]
    assert rows.dtype == np.float32
    assert np.allclose(rows, Words().encode(texts), atol=1e-3)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(4), abs=1e-6)


def test_kept_vectors_are_taken_and_are_the_same(tmp_path: Path) -> None:
    """E9: whether a vector is new or kept makes no difference."""
    first = vectors_of(["one", "two"], Words(), cache=DiskCache(tmp_path), progress=silent)
    encoder = Words()
    second = vectors_of(["two", "three"], encoder, cache=DiskCache(tmp_path), progress=silent)
    assert encoder.asked == ["three"]
    assert np.array_equal(first[1], second[0])
    assert np.array_equal(second[1], vectors_of(["three"], Words(), cache=None, progress=silent)[0])


def test_vectors_of_another_encoder_are_not_taken(tmp_path: Path) -> None:
    vectors_of(["one"], Words(), cache=DiskCache(tmp_path), progress=silent)
    other = Words("words:2")
    vectors_of(["one"], other, cache=DiskCache(tmp_path), progress=silent)
    assert other.asked == ["one"]


def test_what_was_encoded_before_a_failure_is_kept(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(300)]
    with pytest.raises(EncoderError):
        vectors_of(texts, Fragile(), cache=DiskCache(tmp_path), progress=silent)
    encoder = Words()
    vectors_of(texts, encoder, cache=DiskCache(tmp_path), progress=silent)
    assert 0 < len(encoder.asked) < 300


def test_progress_is_told_and_can_stop_it() -> None:
    told = []
    texts = [f"text {number}" for number in range(300)]
    vectors_of(texts, Words(), cache=None, progress=lambda *step: told.append(step))
    assert told[0] == ("encoding", 0, 300)
    assert told[-1] == ("encoding", 300, 300)

    def stop(what: str, done: int, total: int) -> None:
        raise InterruptedError

    encoder = Words()
    with pytest.raises(InterruptedError):
        vectors_of(texts, encoder, cache=None, progress=stop)
    assert encoder.asked == []


def test_a_keeping_encoder_encodes_a_text_once_for_all_processes(tmp_path: Path) -> None:
    first, second = Words(), Words()
    rows = CachedEncoder(first, DiskCache(tmp_path), silent).encode(["one", "two"])
    again = CachedEncoder(second, DiskCache(tmp_path), silent)
    assert np.array_equal(again.encode(["two", "one"]), rows[::-1])
    assert (sorted(first.asked), second.asked) == (["one", "two"], [])
    assert again.fingerprint == first.fingerprint


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_no_number_is_an_error_and_never_kept(wrong: float, tmp_path: Path) -> None:
    class Wrong(Words):
        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return super().encode(texts) + np.float32(wrong)

    class Short(Words):
        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return super().encode(texts)[:, :5]

    for encoder in (Wrong(), Short()):
        with pytest.raises(EncoderError, match="gave something else than 2 rows of 128 numbers"):
            vectors_of(["one", "two"], encoder, cache=DiskCache(tmp_path), progress=silent)
    assert not [*tmp_path.iterdir()]


def test_very_many_texts_in_parts_have_the_codes_of_all_at_once() -> None:
    """E9"""
    texts = [f"text {number % 300}" for number in range(26_000)]
    parts, whole = (packed_vectors_of(texts, Words(), cache=None, progress=silent, in_parts=each) for each in (True, False))
    assert (parts.is_coded, whole.is_coded) == (True, False)
    assert np.array_equal(parts.raw(), coded(whole).raw())


def test_no_part_of_very_many_texts_stays_beside_the_index() -> None:
    """The index has their vectors. The last part is no smaller than the others, and so not kept, either."""
    cache, texts = MemoryCache(is_alone=True), [f"{number % 200} {number // 200}" for number in range(25_010)]
    rows = packed_vectors_of(texts, Words(), cache=cache, progress=silent, in_parts=True)
    assert len(rows) == len(texts)
    assert len(cache.vectors(Words().fingerprint, Words().dimensions, text_keys(texts[:1]))) == 0
