"""A fake encoder for tests: texts that share words have similar vectors."""

import hashlib
import re
from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"\w+")
_READ_CHARACTERS = 2_000
_DIMENSIONS = 64


class BagOfWordsEncoder:
    """Encodes a text as the normalized sum of its words' vectors, each a fixed one of 64 dimensions. Order and case are
    ignored.

    Texts of the same words have cosine 1. Texts without a common word have about 0, mostly within 0.25; with half of the words
    in common, about 0.5. A text without words has a fixed vector. Only the first 2,000 characters count. Equal texts have equal
    vectors in every process.

    Args:
        is_local: As in `ports.encoder`.
        languages: The languages that it says to know; None = all.

    Attributes:
        calls: how often `encode` was called.
        encoded: how many texts it has encoded.
    """

    fingerprint = "bag-of-words-64"
    dimensions = _DIMENSIONS

    def __init__(self, *, is_local: bool = True, languages: Collection[str] | None = None) -> None:
        self.is_local = is_local
        self.languages = None if languages is None else frozenset(languages)
        self.calls = 0
        self.encoded = 0

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls += 1
        self.encoded += len(texts)
        rows = np.empty((len(texts), _DIMENSIONS))
        for row, text in zip(rows, texts, strict=True):
            words = _WORD.findall(text[:_READ_CHARACTERS].casefold()) or [""]
            row[:] = sum((_direction(word) for word in words), np.zeros(_DIMENSIONS))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows.astype(np.float32)


@lru_cache(maxsize=10_000)
def _direction(word: str) -> NDArray[np.float64]:
    """A word's vector, of length 1. Made from a digest, because `hash` differs between processes."""
    digest = hashlib.blake2b(word.encode(errors="surrogatepass"), digest_size=_DIMENSIONS).digest()
    row = np.frombuffer(digest, dtype=np.uint8) - 127.5
    return row / np.linalg.norm(row)
