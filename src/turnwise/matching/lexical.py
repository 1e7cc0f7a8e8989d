"""Bag-of-n-grams features: a text's words, word pairs and short runs of letters.

Every n-gram is hashed with a sign to one of a fixed number of buckets (Weinberger et al. 2009, Feature Hashing). No vocabulary
is stored, and an unknown word still shares runs of letters with known ones. Rare n-grams weigh more (tf-idf).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.matching.normalize import normalize

PLACES = 2048
READ_CHARACTERS = 2_000
"""Maximum number of characters read from a text, to bound the cost of a message."""

_COUNTED_TEXTS, _AT_ONCE = 20_000, 2_000
_RUNS = (2, 3, 4)
_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
# A key holds 40 bits of the hash; its other 24 bits hold the text's index, up to 16 million.
_KEPT_BITS, _DROPPED_BITS = np.uint64(40), np.uint64(24)
_END = "\n"


class Rows(NamedTuple):
    """A sparse matrix in coordinate form, sorted by row. A row without n-grams has no entry."""

    rows: NDArray[np.int64]
    places: NDArray[np.int64]
    values: NDArray[np.floating]


class Lexicon:
    """The idf weight of each bucket. Immutable."""

    def __init__(self, weights: NDArray[np.float32]) -> None:
        self.weights = weights

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Lexicon":
        """Fits the weights on texts: 1 + log((1 + texts) / (1 + uses)). Very large collections are sampled."""
        texts = texts[:: 1 + len(texts) // _COUNTED_TEXTS]
        used = np.zeros(PLACES, np.int64)
        for start in range(0, len(texts), _AT_ONCE):
            used += np.bincount(_ngram_counts(texts[start : start + _AT_ONCE]).places, minlength=PLACES)
        used = np.minimum(used, len(texts))
        return cls((1.0 + np.log((1.0 + len(texts)) / (1.0 + used))).astype(np.float32))

    def rows(self, texts: Sequence[str]) -> Rows:
        """Returns a row of about length 1 for each text; hash collisions change the length slightly."""
        counted = _ngram_counts(texts)
        values = counted.values * self.weights[counted.places]
        squares = np.bincount(counted.rows, weights=values * values, minlength=len(texts))
        return Rows(counted.rows, counted.places, (values / np.sqrt(squares)[counted.rows]).astype(np.float32))

    def dense(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns the rows as an array, texts × PLACES."""
        rows, places, values = self.rows(texts)
        spread = np.bincount(rows * PLACES + places, weights=values, minlength=len(texts) * PLACES)
        return spread.astype(np.float32).reshape(len(texts), PLACES)


def _ngram_counts(texts: Sequence[str]) -> Rows:
    """Returns each distinct n-gram of each text: its sign times 1 + log of its count."""
    rows, hashes = _grams([_readable(text) for text in texts])
    keys, times = np.unique((rows.astype(np.uint64) << _KEPT_BITS) | (hashes >> _DROPPED_BITS), return_counts=True)
    signs = np.where(keys & np.uint64(1), 1.0, -1.0)
    places = (keys >> np.uint64(1)) & np.uint64(PLACES - 1)
    return Rows((keys >> _KEPT_BITS).astype(np.int64), places.astype(np.int64), signs * (1.0 + np.log(times)))


def _readable(text: str) -> str:
    return normalize(text[: 2 * READ_CHARACTERS], fold=True)[:READ_CHARACTERS]


def _grams(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Returns the row and the hash of every n-gram. A run of letters stays within a word and one space on either side."""
    padded = [f" {text} {_END}" if text else _END for text in texts]
    letters = np.frombuffer("".join(padded).encode("utf-32-le"), np.uint32).astype(np.uint64)
    rows = np.repeat(np.arange(len(texts)), [len(text) for text in padded])
    space, end = letters == ord(" "), letters == ord(_END)
    gaps = np.concatenate([[0], np.cumsum(space | end)])
    found_rows, found = [], []
    running = letters
    for size in range(2, max(_RUNS) + 1):
        count = max(len(letters) - size + 1, 0)
        running = running[:count] * _ODD + letters[size - 1 :]
        inner = gaps[size - 1 : size - 1 + count] == gaps[1 : 1 + count]
        indices = np.flatnonzero(inner & ~end[:count] & ~end[size - 1 :] & ~(space[:count] & space[size - 1 :] & (size == 2)))
        found_rows.append(rows[indices])
        found.append(running[indices] + np.uint64(size))
    word_rows, words = _words(letters, rows, space)
    paired = word_rows[:-1] == word_rows[1:]
    found.append((words[:-1] * np.uint64(3) + words[1:])[paired])
    hashes = _mixed(np.concatenate(found))
    return np.concatenate([*found_rows, word_rows[:-1][paired], word_rows]), np.concatenate([hashes, words])


def _words(
    letters: NDArray[np.uint64], rows: NDArray[np.int64], space: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Returns the row and the hash of every word: the mixed sum of its letters, each mixed with its position."""
    starts = np.flatnonzero(space[:-1] & (letters[1:] > ord(" "))) + 1
    ends = np.flatnonzero((letters[:-1] > ord(" ")) & space[1:]) + 1
    begun = np.zeros(len(letters), np.int64)
    begun[starts] = starts
    position = np.arange(len(letters)) - np.maximum.accumulate(begun)
    sums = np.concatenate([[np.uint64(0)], np.cumsum(_mixed(letters * _ODD + position.astype(np.uint64) * _MIX))])
    return rows[starts], _mixed(sums[ends] - sums[starts] + np.uint64(1))


def _mixed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    hashes = (hashes ^ (hashes >> _HALF)) * _MIX
    hashes = (hashes ^ (hashes >> _HALF)) * _MIX
    return hashes ^ (hashes >> _HALF)
