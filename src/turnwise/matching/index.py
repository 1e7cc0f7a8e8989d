"""A nearest-neighbour index over phrases' vectors, with the best cosine for each label.

Up to `EXACT_PHRASES` the search is exhaustive. Above, the phrases of each label are clustered into cells of about twenty
(spherical k-means with a fixed seed). The search compares a vector with the cells' centroids, then with the phrases of the
nearest cells. Their vectors are quantized to 8 bits per number (`packed_vectors.coded`). Cells do not span labels, because
phrases of different labels often share their wording; such cells would group wordings.
"""

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.matching.match import NEAREST, NEAREST_OF_A_LABEL
from turnwise.matching.packed_vectors import AnyVectors, PackedVectors, coded

EXACT_PHRASES = 10_000
"""Maximum number of phrases for exhaustive search: about half a millisecond at 384 dimensions."""

NO_PHRASE = -1.0
"""Cosine of a label without phrases."""

# Recall of the nearest phrase: 99.4 % among 42,000 real requests. For the rest, the phrase found is about as near.
_PROBED_CELLS, _PROBED_ROWS = 128, 6_000
_CELL, _LARGEST_CELL, _CELLS_OF_A_LABEL = 20, 30, 256
_SAMPLED_PER_CELL = 48
_ROUNDS = 6
_SEED = 20_111
_CHUNK, _CELLS_AT_ONCE = 4_096, 256

Vectors = NDArray[np.float32]
Places = NDArray[np.intp]
Mask = NDArray[np.bool_]


class Neighbours(NamedTuple):
    """The result of a search."""

    places: Places
    """Indices of the nearest phrases in the index's input, best first; ties in input order."""
    cosines: Vectors
    """Their cosines."""
    best: Vectors
    """For each label, the cosine of its nearest phrase; NOTHING for a label without phrases.

    Above EXACT_PHRASES this is a lower bound for labels that are not near: the mean cosine of their nearest cell.
    """


class Index:
    """Phrases' vectors by label. Immutable and safe to share between threads. Equal input gives an equal index.

    Args:
        vectors: n × d, each row of length 1, of any float type. Up to EXACT_PHRASES they are stored as float32, without a
            copy if they already are and are sorted by label.
        labels: n numbers from 0 to label_count - 1.
        label_count: Number of labels.
        exact: Maximum number of phrases for exhaustive search.
    """

    def __init__(
        self,
        vectors: NDArray[np.floating] | PackedVectors,
        labels: NDArray[np.integer],
        label_count: int,
        *,
        exact: int = EXACT_PHRASES,
    ) -> None:
        self.label_count = label_count
        self._rows: _Exact | _Cells
        if len(vectors) <= exact:
            order = np.argsort(labels, kind="stable")
            in_order = bool((order[:-1] < order[1:]).all())
            rows = vectors[:] if in_order else vectors[order]
            self._rows = _Exact(np.asarray(rows, np.float32), np.asarray(labels)[order], order)
        else:
            self._rows = _Cells.build(coded(vectors), np.asarray(labels))

    def __len__(self) -> int:
        return len(self._rows.places)

    @property
    def is_exact(self) -> bool:
        """Returns whether the search is exhaustive."""
        return isinstance(self._rows, _Exact)

    def search(self, vector: Vectors, count: int = NEAREST, per_label: int = NEAREST_OF_A_LABEL) -> Neighbours:
        """Returns the neighbours of a vector: at most `count` phrases, at most `per_label` of each label."""
        return self.search_many(vector[None], count, per_label)[0]

    def search_many(
        self, vectors: Vectors, count: int = NEAREST, per_label: int = NEAREST_OF_A_LABEL, *, skip: Mask | None = None
    ) -> list[Neighbours]:
        """Returns `search` of each row; much faster for many rows.

        Args:
            vectors: The rows.
            count: As for `search`.
            per_label: As for `search`.
            skip: For each label, whether to leave out its phrases; None = leave out none.
        """
        rows, size = self._rows, self.label_count
        if len(vectors) == 1:
            return [rows.neighbours(rows.compare(vectors[0]), count, per_label, size, skip)]
        neighbours = []
        for start in range(0, len(vectors), 256):
            for each in rows.compare_many(vectors[start : start + 256]):
                neighbours.append(rows.neighbours(each, count, per_label, size, skip))
        return neighbours

    def vectors(self) -> AnyVectors:
        """Returns the phrases' vectors, in the order of the index's input; those of an index that is not exact are codes."""
        rows = self._rows
        numbers = np.empty(len(rows.places), np.intp)
        numbers[rows.places] = np.arange(len(numbers))
        if isinstance(rows, _Cells):
            return rows.codes.chosen(numbers)
        return rows.vectors if bool((numbers[:-1] < numbers[1:]).all()) else rows.vectors[numbers]

    def labels_by_place(self) -> Places:
        """Returns each phrase's label, in the order of the index's input."""
        labels = np.empty(len(self), np.intp)
        labels[self._rows.places] = self._rows.labels
        return labels

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Returns the index's state as arrays, for `from_arrays`."""
        arrays = self._rows._asdict()
        if isinstance(self._rows, _Cells):
            arrays["codes"] = self._rows.codes.raw()
        return {"label_count": np.array(self.label_count), **arrays}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> "Index":
        """Restores an index from `arrays`. Raises KeyError when one is missing."""
        self = cls.__new__(cls)
        self.label_count = int(arrays["label_count"])
        kind = _Cells if "codes" in arrays else _Exact
        parts: dict[str, Any] = {name: arrays[name] for name in kind._fields}
        if kind is _Cells:
            parts["codes"] = PackedVectors((parts["codes"],), np.arange(len(parts["codes"])))
        self._rows = kind(**parts)
        return self


class _Cosines(NamedTuple):
    """Cosines of compared rows; `rows` None means all. `cells` holds the cosine of every cell's centroid."""

    cosines: Vectors
    rows: Places | None = None
    cells: Vectors | None = None


class _Exact(NamedTuple):
    """Rows sorted by label: vectors, labels, and indices in the input."""

    vectors: Vectors
    labels: Places
    places: Places

    def compare(self, vector: Vectors) -> _Cosines:
        return _Cosines(_cosines(self.vectors, vector))

    def compare_many(self, vectors: Vectors) -> list[_Cosines]:
        return [_Cosines(row) for row in vectors @ self.vectors.T]

    def neighbours(
        self, compared: _Cosines, count: int, per_label: int, label_count: int, skip: Mask | None = None
    ) -> Neighbours:
        """Returns the nearest phrases and each label's best cosine, of all phrases."""
        best = np.full(label_count, NO_PHRASE, np.float32)
        if len(self.labels):
            starts = _starts(self.labels)
            best[self.labels[starts]] = np.maximum.reduceat(compared.cosines, starts)
        return _nearest(compared.cosines, self.labels, self.places, best, (count, per_label), skip)


class _Cells(NamedTuple):
    """Rows sorted by label, then by cell. A cell has rows of one label only."""

    codes: PackedVectors
    """Quantized vectors; a row's vector is its codes times its scale, of length 1. Indexes before and after a change share
    those that did not change."""
    scales: Vectors
    labels: Places
    places: Places
    """Each row's index in the input."""
    bounds: Places
    """First row of each cell, and the end."""
    cell_labels: Places
    middles: Vectors
    """The cells' centroids, scaled to length 1."""
    lengths: Vectors
    """The centroids' lengths before scaling."""

    @classmethod
    def build(cls, vectors: PackedVectors, labels: Places) -> "_Cells":
        """Builds the cells: each label's phrases in groups of near ones, with a middle and int8 codes."""
        order = np.argsort(labels, kind="stable")
        order, bounds = _in_cells(vectors, order, _starts(labels[order]))
        codes = vectors.without_waste().chosen(order)
        scales = np.empty(len(vectors), np.float32)
        middles = np.empty((len(bounds) - 1, vectors.shape[1]), np.float32)
        for first in range(0, len(middles), _CELLS_AT_ONCE):
            starts = bounds[:-1][first : first + _CELLS_AT_ONCE]
            rows = slice(int(starts[0]), int(bounds[min(first + _CELLS_AT_ONCE, len(middles))]))
            chunk = codes.raw(rows).astype(np.float32)
            scales[rows] = 1.0 / np.maximum(np.linalg.norm(chunk, axis=1), 1e-12)
            chunk *= scales[rows, None]
            middles[first : first + _CELLS_AT_ONCE] = np.add.reduceat(chunk, starts - starts[0], axis=0)
        middles /= np.diff(bounds)[:, None]
        lengths = np.linalg.norm(middles, axis=1)
        middles /= np.maximum(lengths, 1e-12)[:, None]
        return cls(codes, scales, labels[order], order, bounds, labels[order][bounds[:-1]], middles, lengths)

    def compare(self, vector: Vectors) -> _Cosines:
        return self._compare_nearest_cells(_cosines(self.middles, vector), vector)

    def compare_many(self, vectors: Vectors) -> list[_Cosines]:
        return [self._compare_nearest_cells(*pair) for pair in zip(vectors @ self.middles.T, vectors, strict=True)]

    def _compare_nearest_cells(self, cells: Vectors, vector: Vectors) -> _Cosines:
        """Compares the vector with the rows of the nearest cells."""
        probed = np.argpartition(-cells, _PROBED_CELLS)[:_PROBED_CELLS] if len(cells) > _PROBED_CELLS else np.arange(len(cells))
        probed = probed[np.lexsort((probed, -cells[probed]))]
        enough = np.searchsorted(np.cumsum(self.bounds[probed + 1] - self.bounds[probed]), _PROBED_ROWS) + 1
        probed = np.sort(probed[:enough])
        starts = self.bounds[probed]
        sizes = self.bounds[probed + 1] - starts
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = np.repeat(starts, sizes) + within
        cosines = _cosines(self.codes.raw(rows).astype(np.float32), vector) * self.scales[rows]
        return _Cosines(cosines, rows, cells * self.lengths)

    def neighbours(
        self, compared: _Cosines, count: int, per_label: int, label_count: int, skip: Mask | None = None
    ) -> Neighbours:
        """Returns the nearest phrases of the compared cells, and each label's best cosine or cell."""
        rows, cells = compared.rows, compared.cells
        assert rows is not None
        assert cells is not None
        best = np.full(label_count, NO_PHRASE, np.float32)
        starts = _starts(self.cell_labels)
        best[self.cell_labels[starts]] = np.maximum.reduceat(cells, starts)
        labels = self.labels[rows]
        starts = _starts(labels)
        probed_labels = labels[starts]
        best[probed_labels] = np.maximum(best[probed_labels], np.maximum.reduceat(compared.cosines, starts))
        return _nearest(compared.cosines, labels, self.places[rows], best, (count, per_label), skip)


class OverlaidIndex:
    """An index of changed labels over an index of the labels before the change. Shares the rows of unchanged labels.

    Args:
        base: The index before the change.
        numbers: For each label of the base, its number now; -1 = it changed or is gone.
        shifts: For each label of the base, what to add to the indices of its phrases.
        changed: An index of the changed labels' phrases, with the numbers that they have now.
        places: The indices of those phrases now.
    """

    def __init__(self, base: Index, numbers: Places, shifts: Places, changed: Index, places: Places) -> None:
        self._base, self._numbers, self._shifts = base, numbers, shifts
        self._changed, self._places = changed, places
        self._kept = np.flatnonzero(numbers >= 0)
        self._gone = numbers < 0
        self._base_labels = base.labels_by_place()

    def __len__(self) -> int:
        return int((~self._gone[self._base_labels]).sum()) + len(self._changed)

    def search_many(self, vectors: Vectors, count: int = NEAREST, per_label: int = NEAREST_OF_A_LABEL) -> list[Neighbours]:
        """As `Index.search_many`."""
        before = self._base.search_many(vectors, count, per_label, skip=self._gone)
        after = self._changed.search_many(vectors, count, per_label)
        return [self._merged(*pair, count) for pair in zip(before, after, strict=True)]

    def _merged(self, before: Neighbours, after: Neighbours, count: int) -> Neighbours:
        """Merges the neighbours of the base index with those of the changed labels."""
        best = after.best.copy()
        best[self._numbers[self._kept]] = before.best[self._kept]
        shifted = before.places + self._shifts[self._base_labels[before.places]]
        places = np.concatenate([shifted, self._places[after.places]])
        cosines = np.concatenate([before.cosines, after.cosines])
        order = np.lexsort((places, -cosines))[:count]
        return Neighbours(places[order], cosines[order], best)


def _nearest(
    cosines: Vectors, labels: Places, places: Places, best: Vectors, limits: tuple[int, int], skip: Mask | None
) -> Neighbours:
    """Returns the neighbours among compared rows, without those of the labels to skip."""
    if skip is not None:
        left = np.flatnonzero(~skip[labels])
        cosines, labels, places = cosines[left], labels[left], places[left]
    top = _top(cosines, labels, places, *limits)
    return Neighbours(places[top], cosines[top], best)


def _cosines(rows: Vectors, vector: Vectors) -> Vectors:
    """Returns each row's dot product with the vector, computed in this thread.

    A matrix product may use several threads. For so little work they spend longer waiting for each other than working, on a
    busy machine a hundred times as long.
    """
    return np.asarray(np.vecdot(rows, vector), np.float32)


def _starts(sorted_labels: NDArray[np.integer]) -> Places:
    """Returns the first row of each label."""
    return np.flatnonzero(np.concatenate([[True], sorted_labels[1:] != sorted_labels[:-1]]))


def _top(cosines: Vectors, labels: Places, places: Places, count: int, per_label: int) -> Places:
    """Returns the rows of the highest cosines, best first, at most `per_label` of each label; ties by input index."""
    size, total = max(8 * count, 32), len(cosines)
    while True:
        if size < total:
            # Includes all ties with the last one, so that the order of rows never decides.
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


def _in_cells(vectors: PackedVectors, order: Places, starts: Places) -> tuple[Places, Places]:
    """Returns the order with each label's rows sorted by cell, and the cells' bounds. `starts` is the labels' first rows."""
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


def _grouped(vectors: PackedVectors, own: Places) -> Places:
    """Clusters the rows `own` into cells by spherical k-means; returns each row's cell, in the order of `own`."""
    generator = np.random.default_rng(_SEED)
    count = min(-(-len(own) // _CELL), _CELLS_OF_A_LABEL)
    sampled = own[np.sort(generator.permutation(len(own))[: count * _SAMPLED_PER_CELL])]
    sample = vectors[sampled]
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
        chunk = vectors[own[start : start + _CHUNK]]
        cells[start : start + _CHUNK] = (chunk @ middles.T).argmax(axis=1)
    return cells
