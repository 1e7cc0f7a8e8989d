"""An encoder without a model, for tests: texts that share words lie close together."""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"\w+")
_READ_CHARACTERS = 2_000
_DIMENSIONS = 64


class BagOfWordsEncoder:
    """The direction of a text is the sum of its words', each a fixed one of 64 dimensions; order and case play no part.

    Texts of the same words have cosine 1, texts without a common word about 0 (mostly within 0.25), and half of the words
    in common give about 0.5. A text without a word has a vector of its own. The first 2,000 characters are read. Equal
    texts give equal vectors in every process. `calls` counts how often it was asked, `encoded` how many texts it was given.
    """

    fingerprint = "bag-of-words-64"
    dimensions = _DIMENSIONS

    def __init__(self, *, is_local: bool = True) -> None:
        self.is_local = is_local
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
    """A word's own direction, of length 1. A digest's bytes, since `hash` differs between processes."""
    digest = hashlib.blake2b(word.encode(errors="surrogatepass"), digest_size=_DIMENSIONS).digest()
    row = np.frombuffer(digest, dtype=np.uint8) - 127.5
    return row / np.linalg.norm(row)
