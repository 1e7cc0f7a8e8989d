"""The parts of what belongs to a label: one agent may do several things that have little in common."""

from collections.abc import Sequence

import numpy as np

from turnwise.matching.heads import Classes, Floats, class_sums, directions

_PHRASES_PER_SKILL = 5
_MOST_PER_LABEL = 40
_MOST = 400
_LEAST_PER_LABEL = 3
_ROUNDS = 15
_SEED = 20_111


def split(vectors: Floats, owners: Classes, names: Sequence[str]) -> tuple[Classes, Classes]:
    """The skill of each row, and the label of each skill, ascending.

    owners: the rows' labels, every number from 0 having a row. names: the rows' known skills; rows of no known skill are
    grouped by their vectors, a skill to five rows, unless there are so many labels that no label is likely to be broad.
    """
    labels = int(owners.max()) + 1
    most = min(_MOST // labels, _MOST_PER_LABEL)
    skills = np.zeros(len(owners), np.int64)
    parents: list[int] = []
    order = np.argsort(owners, kind="stable")
    for label, rows in enumerate(np.split(order, np.searchsorted(owners[order], np.arange(1, labels)))):
        known = [names[row] for row in rows]
        numbers = {name: number for number, name in enumerate(sorted({name for name in known if name}))}
        local = np.array([numbers.get(name, -1) for name in known])
        free = rows[local < 0]
        if len(free):
            count = min(len(free) // _PHRASES_PER_SKILL, most)
            found = _grouped(vectors[free], count) if count >= _LEAST_PER_LABEL else np.zeros(len(free), np.int64)
            local[local < 0] = len(numbers) + found
        kept, local = np.unique(local, return_inverse=True)
        skills[rows] = len(parents) + local
        parents += [label] * len(kept)
    return skills, np.array(parents, np.int64)


def _grouped(vectors: Floats, count: int) -> Classes:
    """A group for each row, by k-means on directions."""
    middles = vectors[np.random.default_rng(_SEED).permutation(len(vectors))[:count]]
    groups = np.zeros(len(vectors), np.int64)
    for _ in range(_ROUNDS):
        before, groups = groups, (vectors @ middles.T).argmax(axis=1)
        if (before == groups).all():
            break
        sums = class_sums(vectors, groups, count)
        middles = np.where(sums.any(axis=1, keepdims=True), directions(sums), middles)
    return groups
