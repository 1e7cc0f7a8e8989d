"""Linear models: softmax regression, linear discriminant analysis, weights of scorers, and the split of labels into skills.

They are fitted with L-BFGS: `minimize` takes any smooth function of many variables.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.matching.packed_vectors import AnyVectors

Floats = NDArray[np.float32]
Classes = NDArray[np.int64]
"""Class index of each row, from 0."""

_CURVED = 0.1
_BALANCE = 0.75
_SHRINKAGE = 1_000.0
_CHUNK, _CLASSES = 2_048, 1_000

HELD_OUT, LABELLED = 40.0, 4.0
"""Weight of the prior, in texts, when fitting on held-out examples and on users' messages.

Examples in a file resemble each other more than users' messages do, so they get the stronger prior.
"""

_TRUST_PER_LABEL = 2.0
_HIGHEST_LOG = 4.0

_PHRASES_PER_SKILL = 5
_MOST_PER_LABEL = 40
_MOST = 400
_LEAST_PER_LABEL = 3
_ROUNDS = 15
_SEED = 20_111

Objective = Callable[[NDArray[np.float32]], tuple[float, NDArray[np.float32]]]
"""Returns the value and the gradient at a point. The gradient has the point's shape."""

Rescale = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Preconditioner: an approximate inverse Hessian, linear, symmetric and positive definite, applied to a direction."""

Tick = Callable[[], None]
"""Callback during long work, at most sizes every few tenths of a second. An exception from it stops the work."""

_MEMORY = 10
_SUFFICIENT = 1e-4
_HALVINGS = 20


class Head(NamedTuple):
    """A linear model: a class's score is its weight column times the vector, plus its bias."""

    weights: Floats  # dimensions × classes; column-major, as one vector is multiplied column by column
    bias: Floats

    def scores(self, vectors: Floats) -> Floats:
        """Returns a row of scores for each vector. They are log-probabilities up to a constant per row."""
        return np.asarray(row_products(vectors, self.weights.T) + self.bias, np.float32)


def row_products(vectors: Floats, rows: Floats) -> Floats:
    """Returns the product of each vector with each row, vectors × rows.

    One vector is multiplied in this thread: its products then do not depend on how many threads those of matrices use, and
    do not wait for others'.
    """
    return np.vecdot(rows, vectors[0])[None] if len(vectors) == 1 else vectors @ rows.T


def fit_softmax(
    vectors: Floats,
    classes: Classes,
    count: int,
    *,
    strength: float,
    steps: int,
    rescale: Rescale | None = None,
    tick: Tick | None = None,
) -> Head:
    """Fits softmax regression: mean log-loss plus |weights|² / (2 × strength × rows), without a penalty on the bias.

    Deterministic. Rows are weighted by `balanced`.
    """
    rows, size = vectors.shape
    penalty = np.float32(1.0 / (strength * rows))
    at = np.arange(rows)
    counts = balanced(classes)

    def objective(point: Floats) -> tuple[float, Floats]:
        weights = point[:-1]
        scores = vectors @ weights
        scores += point[-1]
        scores -= scores.max(axis=1, keepdims=True)
        fit = (counts * scores[at, classes]).sum(dtype=np.float64)
        np.exp(scores, out=scores)
        sums = scores.sum(axis=1, keepdims=True)
        fit -= counts @ np.log(sums[:, 0])
        scores *= counts[:, None] / sums
        scores[at, classes] -= counts
        gradient = np.empty_like(point)
        np.matmul(vectors.T, scores, out=gradient[:-1])
        gradient[-1] = scores.sum(axis=0)
        gradient /= np.float32(rows)
        gradient[:-1] += penalty * weights
        return 0.5 * float(penalty) * float(np.vdot(weights, weights)) - float(fit) / rows, gradient

    point = minimize(objective, np.zeros((size + 1, count), np.float32), rescale=rescale, steps=steps, tick=tick)
    return Head(np.asfortranarray(point[:-1]), point[-1])


def fit_normal(vectors: AnyVectors, classes: Classes, count: int) -> Head:
    """Fits linear discriminant analysis: normal distributions with a shared covariance, in one pass.

    The covariance within classes is shrunk towards a multiple of the identity, so one vector per class is enough. Rows of
    class -1 are ignored.
    """
    size = vectors.shape[1]
    used = np.flatnonzero(classes >= 0)
    products = np.zeros((size, size))
    for start in range(0, len(used), _CHUNK):
        chunk = vectors[used[start : start + _CHUNK]]
        products += chunk.T @ chunk
    sums = class_sums(vectors, classes, count)
    sizes = np.maximum(np.bincount(classes[used], minlength=count), 1)[:, None]
    middle = sums.sum(axis=0, dtype=np.float64) / len(used)
    spread = max(float(np.trace(products)) / len(used) - float(middle @ middle), 1e-6) / size
    within = products + _SHRINKAGE * spread * np.eye(size)
    blocks = [slice(start, start + _CLASSES) for start in range(0, count, _CLASSES)]
    for block in blocks:
        within -= sums[block].T @ (sums[block].astype(np.float64) / sizes[block])
    within /= max(len(used) - count, 0) + _SHRINKAGE
    # Column-major: with many classes, the product with one vector is bound by reading all weights.
    weights, bias = np.empty((size, count), np.float32, "F"), np.empty(count, np.float32)
    for block in blocks:
        means = sums[block].astype(np.float64) / sizes[block]
        of_block = np.linalg.solve(within, means.T)
        weights[:, block] = _CURVED * of_block
        bias[block] = -0.5 * _CURVED * np.einsum("kc,ck->c", of_block, means)
    return Head(weights, bias)


def fit_weights(
    evidence: Floats,
    right: Classes,
    expected: Floats,
    *,
    trust: float,
    counts: Floats | None = None,
    tick: Tick | None = None,
) -> Floats:
    """Fits the scorers' weights that maximize the probability of the right labels. The combined probabilities are calibrated.

    Args:
        evidence: texts × labels × scorers, for texts that the scorers were not fitted on.
        right: Index of each text's right label.
        expected: The prior weights.
        trust: Weight of the prior, in texts. It is much higher when most labels have only one or two texts, since too little
            was left to fit on with one held out.
        counts: Weight of each text; None = 1.
        tick: Called during the work.

    Returns:
        The weights, none below zero; `expected` when there are no texts.
    """
    if not len(right):
        return expected
    rows = np.arange(len(right))
    counts = np.ones(len(right), np.float32) if counts is None else counts
    chosen = counts @ evidence[rows, right]
    labels = len(np.unique(right))
    trusted = trust + _TRUST_PER_LABEL * labels * (labels / len(right)) ** 2
    pull = np.float32(trusted / len(right))
    middle = np.log(expected)

    def objective(logs: Floats) -> tuple[float, Floats]:
        weights = np.exp(np.minimum(logs, _HIGHEST_LOG))
        scores = log_softmax(evidence @ weights)
        loss = -float(counts @ scores[rows, right]) / len(right)
        expectation = np.einsum("nc,nck->k", np.exp(scores) * counts[:, None], evidence, optimize=True)
        away = logs - middle
        gradient = (expectation - chosen) / np.float32(len(right)) * weights + pull * away
        return loss + 0.5 * float(pull) * float(away @ away), np.asarray(gradient, np.float32)

    return np.exp(minimize(objective, middle, steps=60, tolerance=1e-5, tick=tick))


def split(vectors: AnyVectors, owners: Classes, names: Sequence[str]) -> tuple[Classes, Classes]:
    """Splits labels into skills.

    Args:
        vectors: One row per phrase.
        owners: Each row's label; every label from 0 has a row.
        names: Each row's known skill. Rows without one are clustered by their vectors, one skill per five rows. With many
            labels they are not, since labels are then unlikely to be broad.

    Returns:
        Each row's skill, and each skill's label, ascending.
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
        unlabelled = rows[local < 0]
        if len(unlabelled):
            count = min(len(unlabelled) // _PHRASES_PER_SKILL, most)
            found = _grouped(vectors[unlabelled], count) if count >= _LEAST_PER_LABEL else np.zeros(len(unlabelled), np.int64)
            local[local < 0] = len(numbers) + found
        kept, local = np.unique(local, return_inverse=True)
        skills[rows] = len(parents) + local
        parents += [label] * len(kept)
    return skills, np.array(parents, np.int64)


def balanced(classes: Classes) -> Floats:
    """Returns a weight for each row, 1 on average: lower for rows of large classes.

    The number of examples of a class says little about how often such texts occur.
    """
    counts = np.bincount(classes)[classes].astype(np.float64) ** -_BALANCE
    return np.asarray(counts * (len(counts) / counts.sum()), np.float32)


def curvature(vectors: Floats, *, strength: float) -> Rescale | None:
    """Returns an approximate inverse Hessian of the softmax loss, shared by all classes (after Böhning 1992).

    None when there are too few rows for it to pay off.
    """
    rows, size = vectors.shape
    if 2 * rows < size:
        return None
    bound = vectors.T @ vectors
    bound *= np.float32(_CURVED / rows)
    bound[np.diag_indices(size)] += np.float32(1.0 / (strength * rows))
    inverse = np.linalg.inv(bound)

    def rescale(direction: Floats) -> Floats:
        return np.concatenate([inverse @ direction[:-1], direction[-1:]])

    return rescale


def class_sums(vectors: AnyVectors, classes: Classes, count: int) -> Floats:
    """Returns the sum of each class's vectors, classes × dimensions; zeros for empty classes. Rows of class -1 are ignored."""
    sums = np.zeros((count + 1, vectors.shape[1]), np.float32)
    for start in range(0, len(vectors), _CHUNK):
        rows = slice(start, start + _CHUNK)
        np.add.at(sums, classes[rows] % (count + 1), vectors[rows])
    return sums[:-1]


def directions(rows: Floats) -> Floats:
    """Scales rows to length 1; zero rows stay zero."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-9), np.float32)


def log_softmax(scores: Floats) -> Floats:
    """Returns log-probabilities along the last axis."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)), np.float32)


def _grouped(vectors: Floats, count: int) -> Classes:
    """Clusters the rows by spherical k-means."""
    middles = vectors[np.random.default_rng(_SEED).permutation(len(vectors))[:count]]
    groups = np.zeros(len(vectors), np.int64)
    for _ in range(_ROUNDS):
        before, groups = groups, (vectors @ middles.T).argmax(axis=1)
        if (before == groups).all():
            break
        sums = class_sums(vectors, groups, count)
        middles = np.where(sums.any(axis=1, keepdims=True), directions(sums), middles)
    return groups


def minimize(
    objective: Objective,
    start: NDArray[np.float32],
    *,
    rescale: Rescale | None = None,
    steps: int = 100,
    tolerance: float = 1e-4,
    tick: Tick | None = None,
) -> NDArray[np.float32]:
    """Minimizes the objective from `start`, which may have any shape and is not modified.

    Limited-memory BFGS with the two-loop recursion (Nocedal and Wright, Numerical Optimization, algorithm 7.5) and a
    backtracking line search. It stops after `steps` steps, when no entry of the gradient exceeds `tolerance`, or when rounding
    prevents further descent. The value never increases, so the result is at least as good as `start`.

    Args:
        objective: The function.
        start: The starting point.
        rescale: A preconditioner; a good one saves most of the steps.
        steps: Maximum number of steps.
        tolerance: Maximum absolute gradient entry at the end.
        tick: Called before each step.
    """
    point = start
    value, gradient = objective(point)
    memory: deque[tuple[NDArray[np.float32], NDArray[np.float32], float]] = deque(maxlen=_MEMORY)
    for _ in range(steps):
        if tick:
            tick()
        if float(np.abs(gradient).max(initial=0.0)) <= tolerance:
            break
        direction = _direction(gradient, memory, rescale)
        slope = _dot(direction, gradient)
        if slope >= 0.0:  # rounding errors corrupted the history: restart with steepest descent
            memory.clear()
            direction, slope = -gradient, -_dot(gradient, gradient)
        found = _search(objective, point, value, direction, slope, first=not memory and rescale is None)
        if found is None:
            break
        moved, value, steeper = found
        step, change = moved - point, steeper - gradient
        curvature = _dot(step, change)
        if curvature > 1e-10 * _dot(change, change):
            memory.append((step, change, 1.0 / curvature))
        point, gradient = moved, steeper
    return point


def _direction(
    gradient: NDArray[np.float32],
    memory: deque[tuple[NDArray[np.float32], NDArray[np.float32], float]],
    rescale: Rescale | None,
) -> NDArray[np.float32]:
    """Returns the next direction by the two-loop recursion of L-BFGS."""
    direction = -gradient
    weights = []
    for step, change, inverse in reversed(memory):
        weights.append(inverse * _dot(step, direction))
        direction = direction - np.float32(weights[-1]) * change
    if rescale is not None:
        direction = rescale(direction)
    elif memory:
        _, change, inverse = memory[-1]
        direction *= np.float32(1.0 / (inverse * _dot(change, change)))
    for (step, change, inverse), weight in zip(memory, reversed(weights), strict=True):
        direction += np.float32(weight - inverse * _dot(change, direction)) * step
    return direction


def _search(
    objective: Objective,
    point: NDArray[np.float32],
    value: float,
    direction: NDArray[np.float32],
    slope: float,
    *,
    first: bool,
) -> tuple[NDArray[np.float32], float, NDArray[np.float32]] | None:
    """Returns a point along the direction with sufficient decrease, its value and gradient; None when there is none."""
    length = min(1.0, 1.0 / max(float(np.abs(direction).max()), 1e-12)) if first else 1.0
    for _ in range(_HALVINGS):
        moved = point + np.float32(length) * direction
        reached, gradient = objective(moved)
        if reached <= value + _SUFFICIENT * length * slope:
            return moved, reached, gradient
        # Minimum of the parabola through both values and the slope, clamped to 0.1–0.5 of the step.
        bend = 2.0 * (reached - value - length * slope)
        least = -slope * length * length / bend if bend > 0.0 else 0.5 * length
        length = min(max(least, 0.1 * length), 0.5 * length)
    return None


def _dot(left: NDArray[np.float32], right: NDArray[np.float32]) -> float:
    return float(np.vdot(left, right))
