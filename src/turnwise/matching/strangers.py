"""Everyday requests that are nobody's: a shipped sample, from which small apps learn how near strangers come."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

DATA = Path(__file__).parent / "data"
TEXTS_FILE, VECTORS_FILE = DATA / "strangers.json", DATA / "strangers.npy"


class Strangers(NamedTuple):
    """Texts that belong to no agent of most apps, with one row of length 1 for each."""

    texts: tuple[str, ...]
    vectors: NDArray[np.float32]

    def unlike(self, vectors: NDArray[np.float32], limit: float) -> "Strangers":
        """Returns the strangers with a cosine below the limit to all these vectors: some apps are for such requests."""
        kept = np.flatnonzero((self.vectors @ vectors.T).max(axis=1, initial=-1.0) < limit)
        return Strangers(tuple(self.texts[place] for place in kept.tolist()), self.vectors[kept])


def shipped(encoder: str) -> Strangers | None:
    """Returns the sample with its vectors.

    Args:
        encoder: The encoder's fingerprint. The vectors are those of the bundled encoder; None for any other one.
    """
    known = _texts()
    return _sample() if known["encoder"] == encoder.partition("@")[0] else None


@lru_cache(maxsize=1)
def _texts() -> dict[str, Any]:
    known: dict[str, Any] = json.loads(TEXTS_FILE.read_text("utf-8"))
    return known


@lru_cache(maxsize=1)
def _sample() -> Strangers:
    vectors = np.load(VECTORS_FILE).astype(np.float32)
    return Strangers(tuple(_texts()["texts"]), vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
