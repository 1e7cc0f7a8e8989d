"""An encoder for tests: texts that share words lie close together. It counts what it is asked."""

import functools
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from turnwise.facts.errors import EncoderError


class Words:
    """Each word adds a direction of its own. broken: it fails as a service that is away would."""

    def __init__(self, fingerprint: str = "words:1", *, dimensions: int = 128, is_local: bool = True) -> None:
        self.fingerprint, self.dimensions, self.is_local = fingerprint, dimensions, is_local
        self.broken = False
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.broken:
            raise EncoderError("The service is away.")
        self.asked += texts
        vectors = np.array([self._vector(text) for text in texts], np.float32).reshape(len(texts), self.dimensions)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def _vector(self, text: str) -> NDArray[np.float64]:
        total = np.full(self.dimensions, 1e-3)
        for word in text.casefold().split():
            total += _direction(word.strip("?!.,"), self.dimensions)
        return total


@functools.cache
def _direction(word: str, dimensions: int) -> NDArray[np.float64]:
    return np.random.default_rng(zlib.crc32(word.encode())).standard_normal(dimensions)
