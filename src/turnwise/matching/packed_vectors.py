"""Vectors of phrases as float16, unpacked piece by piece: those of very many phrases need half the memory."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_AT_ONCE = 4_096


class PackedVectors:
    """Rows of length 1. Indexing unpacks rows, as float32; the numbers do not depend on how many are unpacked. Immutable.

    Args:
        rows: Rows of about length 1. They are not copied.
        places: The index in `rows` of each row.
    """

    def __init__(self, rows: NDArray[np.float16], places: NDArray[np.intp]) -> None:
        self._rows, self._places = rows, places

    def __len__(self) -> int:
        return len(self._places)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows, and of dimensions."""
        return len(self._places), self._rows.shape[1]

    def __getitem__(self, index: slice | NDArray[np.integer] | NDArray[np.bool_] | Sequence[int]) -> Floats:
        places = self._places[index]
        vectors = np.empty((len(places), self._rows.shape[1]), np.float32)
        for start in range(0, len(places), _AT_ONCE):
            chunk = self._rows[places[start : start + _AT_ONCE]].astype(np.float32)
            chunk /= np.maximum(np.linalg.norm(chunk, axis=1, keepdims=True), 1e-12)
            vectors[start : start + _AT_ONCE] = chunk
        return vectors

    def chosen(self, index: Sequence[int]) -> "PackedVectors":
        """Returns those rows, still packed."""
        return PackedVectors(self._rows, self._places[np.asarray(index, np.intp)])


AnyVectors = Floats | PackedVectors
"""One row for each phrase."""
