"""Vectors of phrases as float16, or of very many phrases as signed bytes, unpacked piece by piece."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Packed = NDArray[np.float16] | NDArray[np.int8]
Index = slice | NDArray[np.integer] | NDArray[np.bool_] | Sequence[int]

_AT_ONCE = 1_024
_MOST_BLOCKS = 8
_WASTE = 1.1
_ALL = slice(None)


class PackedVectors:
    """Rows of length 1. Indexing unpacks rows, as float32; the numbers do not depend on how many are unpacked. Immutable.

    Args:
        blocks: Rows of one type, in one or several arrays: float16 of about length 1, or codes of any length. They are not
            copied.
        places: The number of each row; the rows of all blocks are counted on.
    """

    def __init__(self, blocks: Sequence[Packed], places: NDArray[np.intp]) -> None:
        self._blocks, self._places = tuple(blocks), places

    def __len__(self) -> int:
        return len(self._places)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows, and of dimensions."""
        return len(self._places), self._blocks[0].shape[1]

    def __getitem__(self, index: Index) -> Floats:
        places = self._places[index]
        vectors = np.empty((len(places), self.shape[1]), np.float32)
        for start in range(0, len(places), _AT_ONCE):
            chunk = self._rows_at(places[start : start + _AT_ONCE]).astype(np.float32)
            chunk /= np.maximum(np.linalg.norm(chunk, axis=1, keepdims=True), 1e-12)
            vectors[start : start + _AT_ONCE] = chunk
        return vectors

    @property
    def is_coded(self) -> bool:
        """Returns whether the rows are signed bytes."""
        return self._blocks[0].dtype == np.int8

    def raw(self, index: Index = _ALL) -> Packed:
        """Returns rows as they are stored; without a copy if they are one block."""
        places = self._places[index]
        block = self._blocks[0]
        is_block = len(self._blocks) == 1 and len(places) == len(block) and bool((places[:-1] < places[1:]).all())
        return block if is_block else self._rows_at(places)

    def chosen(self, index: Index) -> "PackedVectors":
        """Returns those rows, still packed."""
        return PackedVectors(self._blocks, self._places[index])

    def without_waste(self) -> "PackedVectors":
        """Returns the same rows. They are copied if more than a tenth of the blocks' rows is not among them."""
        if sum(map(len, self._blocks)) <= _WASTE * len(self):
            return self
        return PackedVectors((self._rows_at(self._places),), np.arange(len(self)))

    def beside(self, other: "PackedVectors") -> tuple[Sequence[Packed], NDArray[np.intp]]:
        """Returns the blocks of both and the numbers of their rows, first those of this one.

        When there are many blocks, the largest stays, and the rows of the others are joined.
        """
        size = sum(map(len, self._blocks))
        both = PackedVectors((*self._blocks, *other._blocks), np.concatenate([self._places, other._places + size]))
        return both._compacted() if len(both._blocks) > _MOST_BLOCKS else (both._blocks, both._places)

    def _compacted(self) -> tuple[Sequence[Packed], NDArray[np.intp]]:
        """Returns two blocks: the largest as it is, and the rows of the others, with the new row numbers."""
        sizes = [len(block) for block in self._blocks]
        largest = int(np.argmax(sizes))
        start = sum(sizes[:largest])
        stays = (self._places >= start) & (self._places < start + sizes[largest])
        numbers = self._places - start
        moved = np.flatnonzero(~stays)
        numbers[moved] = sizes[largest] + np.arange(len(moved))
        return (self._blocks[largest], self._rows_at(self._places[moved])), numbers

    def _rows_at(self, numbers: NDArray[np.intp]) -> Packed:
        """Returns these rows as float16."""
        if len(self._blocks) == 1:
            return self._blocks[0][numbers]
        rows: Packed = np.empty((len(numbers), self.shape[1]), self._blocks[0].dtype)
        start = 0
        for block in self._blocks:
            here = np.flatnonzero((numbers >= start) & (numbers < start + len(block)))
            rows[here] = block[numbers[here] - start]
            start += len(block)
        return rows


AnyVectors = Floats | PackedVectors
"""One row for each phrase."""


def coded(vectors: NDArray[np.floating] | PackedVectors) -> PackedVectors:
    """Returns the vectors as signed bytes: an error of about 0.0005 in a cosine, at a quarter of the memory of float32.

    A row's codes depend on that row alone. Rows that are coded already stay as they are.
    """
    if isinstance(vectors, PackedVectors) and vectors.is_coded:
        return vectors
    codes = np.empty(vectors.shape, np.int8)
    for start in range(0, len(codes), _AT_ONCE):
        rows = np.asarray(vectors[start : start + _AT_ONCE], np.float32)
        codes[start : start + _AT_ONCE] = np.rint(rows * (127.0 / np.maximum(np.abs(rows).max(axis=1), 1e-12))[:, None])
    return PackedVectors((codes,), np.arange(len(codes)))
