"""Which of many phrases lie nearest to a text's vector, and how near each label comes.

Up to `EXACT_PHRASES` every phrase is compared. Above, the phrases of each label are sorted into cells of about twenty
(spherical k-means with a fixed seed), a text is compared with the cells' middles, and then with the phrases of the nearest
cells, from vectors rounded to 8 bits a number (an error of about 0.0005 of a cosine, a quarter of the memory). Cells stay
within labels because phrases of many labels often share their wording: cells of all phrases would be cells of wordings.
"""

import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.matching.match import NEAREST, NEAREST_OF_A_LABEL

EXACT_PHRASES = 10_000
"""Up to so many phrases all are compared: about half a millisecond at 384 numbers a vector."""

NOTHING = -1.0
"""The cosine of a label that has no phrase."""

# Finds the nearest of 42,000 real requests for 99.4 of 100 others, and one about as near for the rest.
_PROBED_CELLS, _PROBED_ROWS = 128, 6_000
_CELL, _LARGEST_CELL, _CELLS_OF_A_LABEL = 20, 30, 256
_SAMPLED_PER_CELL = 48
_ROUNDS = 6
_SEED = 20_111
_CHUNK, _CELLS_AT_ONCE = 4_096, 256

Vectors = NDArray[np.float32]
Places = NDArray[np.intp]


class Neighbours(NamedTuple):
    """What lies near a vector.

    places, cosines: the nearest phrases as places in what the index was made from, best first; equal ones in their order.
    best: for each label the cosine of its nearest phrase; NOTHING for a label without one. Above EXACT_PHRASES only labels
    near enough are looked at; of the others it is a lower bound: the mean cosine of the nearest of their cells.
    """

    places: Places
    cosines: Vectors
    best: Vectors


class Index:
    """Phrases' vectors, by label. Immutable and safe to share between threads.

    vectors: n x d, each of length 1, of any float type; up to EXACT_PHRASES they are kept as float32 and, if they are that
    already and sorted by label, not copied. labels: n numbers from 0 to label_count - 1. Equal input gives an equal index.
    """

    def __init__(
        self, vectors: NDArray[np.floating], labels: NDArray[np.integer], label_count: int, *, exact: int = EXACT_PHRASES
    ) -> None:
        self.label_count = label_count
        self._rows: _Exact | _Cells
        if len(vectors) <= exact:
            order = np.argsort(labels, kind="stable")
            in_order = bool((order[:-1] < order[1:]).all())
            kept = vectors if in_order else vectors[order]
            self._rows = _Exact(np.asarray(kept, np.float32), np.asarray(labels)[order], order)
        else:
            self._rows = _Cells.made(vectors, np.asarray(labels))

    def __len__(self) -> int:
        return len(self._rows.places)

    @property
    def is_exact(self) -> bool:
        """Whether every phrase is compared."""
        return isinstance(self._rows, _Exact)

    def search(self, vector: Vectors, count: int = NEAREST, per_label: int = NEAREST_OF_A_LABEL) -> Neighbours:
        """What lies near that vector: at most `count` phrases, at most `per_label` of one label."""
        return self._rows.found(self._rows.compared(vector), count, per_label, self.label_count)

    def search_many(self, vectors: Vectors, count: int = NEAREST, per_label: int = NEAREST_OF_A_LABEL) -> list[Neighbours]:
        """As `search`, for each row; for many rows much faster."""
        if len(vectors) == 1:
            return [self.search(vectors[0], count, per_label)]
        found = []
        for start in range(0, len(vectors), 256):
            for each in self._rows.compared_many(vectors[start : start + 256]):
                found.append(self._rows.found(each, count, per_label, self.label_count))
        return found

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """All it holds, to be kept in a file; `from_arrays` makes the same index of it."""
        return {"label_count": np.array(self.label_count), **self._rows._asdict()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> "Index":
        """The index that gave these arrays. KeyError when they are not an index's."""
        self = cls.__new__(cls)
        self.label_count = int(arrays["label_count"])
        kind = _Cells if "codes" in arrays else _Exact
        self._rows = kind(**{name: arrays[name] for name in kind._fields})  # type: ignore[arg-type]
        return self


class _Cosines(NamedTuple):
    """Cosines of some rows. rows: which; None = all. cells: the cosine of every cell's middle."""

    cosines: Vectors
    rows: Places | None = None
    cells: Vectors | None = None


class _Exact(NamedTuple):
    """Rows sorted by label: vectors, labels, and the places they came from."""

    vectors: Vectors
    labels: Places
    places: Places

    def compared(self, vector: Vectors) -> _Cosines:
        return _Cosines(_cosines(self.vectors, vector))

    def compared_many(self, vectors: Vectors) -> list[_Cosines]:
        return [_Cosines(row) for row in vectors @ self.vectors.T]

    def found(self, compared: _Cosines, count: int, per_label: int, label_count: int) -> Neighbours:
        best = np.full(label_count, NOTHING, np.float32)
        if len(self.labels):
            starts = _starts(self.labels)
            best[self.labels[starts]] = np.maximum.reduceat(compared.cosines, starts)
        top = _top(compared.cosines, self.labels, self.places, count, per_label)
        return Neighbours(self.places[top], compared.cosines[top], best)


class _Cells(NamedTuple):
    """Rows sorted by label, then by cell; a cell is of one label.

    codes, scales: a row's vector is its codes times its scale. labels, places: of the rows. bounds: where each cell's rows
    begin, and the end. cell_labels: of the cells. middles: the cells' mean vectors brought to length 1; lengths: what they
    had before.
    """

    codes: NDArray[np.int8]
    scales: Vectors
    labels: Places
    places: Places
    bounds: Places
    cell_labels: Places
    middles: Vectors
    lengths: Vectors

    @classmethod
    def made(cls, vectors: NDArray[np.floating], labels: Places) -> "_Cells":
        order = np.argsort(labels, kind="stable")
        order, bounds = _in_cells(vectors, order, _starts(labels[order]))
        codes = np.empty(vectors.shape, np.int8)
        scales = np.empty(len(vectors), np.float32)
        middles = np.empty((len(bounds) - 1, vectors.shape[1]), np.float32)
        for first in range(0, len(middles), _CELLS_AT_ONCE):
            starts = bounds[:-1][first : first + _CELLS_AT_ONCE]
            rows = slice(int(starts[0]), int(bounds[min(first + _CELLS_AT_ONCE, len(middles))]))
            chunk = np.asarray(vectors[order[rows]], np.float32)
            steps = np.maximum(np.abs(chunk).max(axis=1), 1e-12) / 127.0
            codes[rows], scales[rows] = np.rint(chunk / steps[:, None]), steps
            middles[first : first + _CELLS_AT_ONCE] = np.add.reduceat(chunk, starts - starts[0], axis=0)
        middles /= np.diff(bounds)[:, None]
        lengths = np.linalg.norm(middles, axis=1)
        middles /= np.maximum(lengths, 1e-12)[:, None]
        return cls(codes, scales, labels[order], order, bounds, labels[order][bounds[:-1]], middles, lengths)

    def compared(self, vector: Vectors) -> _Cosines:
        return self._looked_at(_cosines(self.middles, vector), vector)

    def compared_many(self, vectors: Vectors) -> list[_Cosines]:
        return [self._looked_at(*pair) for pair in zip(vectors @ self.middles.T, vectors, strict=True)]

    def _looked_at(self, cells: Vectors, vector: Vectors) -> _Cosines:
        """The rows of the nearest cells, compared one by one."""
        probed = np.argpartition(-cells, _PROBED_CELLS)[:_PROBED_CELLS] if len(cells) > _PROBED_CELLS else np.arange(len(cells))
        probed = probed[np.lexsort((probed, -cells[probed]))]
        enough = np.searchsorted(np.cumsum(self.bounds[probed + 1] - self.bounds[probed]), _PROBED_ROWS) + 1
        probed = np.sort(probed[:enough])
        starts = self.bounds[probed]
        sizes = self.bounds[probed + 1] - starts
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = np.repeat(starts, sizes) + within
        cosines = _cosines(self.codes[rows].astype(np.float32), vector) * self.scales[rows]
        return _Cosines(cosines, rows, cells * self.lengths)

    def found(self, compared: _Cosines, count: int, per_label: int, label_count: int) -> Neighbours:
        rows, cells = compared.rows, compared.cells
        assert rows is not None
        assert cells is not None
        best = np.full(label_count, NOTHING, np.float32)
        starts = _starts(self.cell_labels)
        best[self.cell_labels[starts]] = np.maximum.reduceat(cells, starts)
        labels = self.labels[rows]
        starts = _starts(labels)
        looked_at = labels[starts]
        best[looked_at] = np.maximum(best[looked_at], np.maximum.reduceat(compared.cosines, starts))
        places = self.places[rows]
        top = _top(compared.cosines, labels, places, count, per_label)
        return Neighbours(places[top], compared.cosines[top], best)


def _cosines(rows: Vectors, vector: Vectors) -> Vectors:
    """Each row's product with the vector, in this thread.

    A matrix product may be shared among threads, which for so little work wait for each other longer than they work, on a
    busy machine a hundred times as long.
    """
    return np.asarray(np.vecdot(rows, vector), np.float32)


def _starts(sorted_labels: NDArray[np.integer]) -> Places:
    """Where each label's run begins."""
    return np.flatnonzero(np.concatenate([[True], sorted_labels[1:] != sorted_labels[:-1]]))


def _top(cosines: Vectors, labels: Places, places: Places, count: int, per_label: int) -> Places:
    """The rows of the highest cosines, best first, at most `per_label` of a label; equal ones by place."""
    size, total = max(8 * count, 32), len(cosines)
    while True:
        if size < total:
            # All that equal the last one belong to it, so that the order of rows never decides.
            least = np.partition(cosines, total - size)[total - size]
            near = np.flatnonzero(cosines >= least)
        else:
            near = np.arange(total)
        near = near[np.lexsort((places[near], -cosines[near]))]
        taken: list[int] = []
        used: dict[int, int] = {}
        for row, label in zip(near.tolist(), labels[near].tolist(), strict=True):
            if used.get(label, 0) < per_label:
                used[label] = used.get(label, 0) + 1
                taken.append(row)
                if len(taken) == count:
                    return np.array(taken, np.intp)
        if size >= total:
            return np.array(taken, np.intp)
        size *= 8


def _in_cells(vectors: NDArray[np.floating], order: Places, starts: Places) -> tuple[Places, Places]:
    """The order with the rows of each label sorted by cell, and the cells' bounds in it. starts: of the labels' rows."""
    order = order.copy()
    bounds: list[int] = []
    for start, stop in itertools.pairwise([*starts.tolist(), len(order)]):
        bounds.append(start)
        if stop - start > _LARGEST_CELL:
            own = order[start:stop]
            cells = _grouped(vectors, own)
            sorting = np.argsort(cells, kind="stable")
            order[start:stop] = own[sorting]
            bounds += (start + _starts(cells[sorting])[1:]).tolist()
    return order, np.array([*bounds, len(order)], np.intp)


def _grouped(vectors: NDArray[np.floating], own: Places) -> Places:
    """A number of its cell for each of these rows (spherical k-means)."""
    generator = np.random.default_rng(_SEED)
    count = min(-(-len(own) // _CELL), _CELLS_OF_A_LABEL)
    picked = own[np.sort(generator.permutation(len(own))[: count * _SAMPLED_PER_CELL])]
    sample = np.asarray(vectors[picked], np.float32)
    middles = sample[np.sort(generator.permutation(len(sample))[:count])]
    for _ in range(_ROUNDS):
        cells = (sample @ middles.T).argmax(axis=1)
        order = np.argsort(cells, kind="stable")
        starts = _starts(cells[order])
        sums = np.add.reduceat(sample[order], starts, axis=0)
        middles = middles.copy()
        middles[cells[order][starts]] = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    cells = np.empty(len(own), np.intp)
    for start in range(0, len(own), _CHUNK):
        chunk = np.asarray(vectors[own[start : start + _CHUNK]], np.float32)
        cells[start : start + _CHUNK] = (chunk @ middles.T).argmax(axis=1)
    return cells
