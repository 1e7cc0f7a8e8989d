"""Scorers that judge which label a text belongs to, their fitting, and stand-ins for labels that no fit knows yet.

In this order: `meaning` (a linear model over vectors), `wording` (a linear model over n-grams), the nearest phrase, and the
mean of the nearest skill. A linear model is softmax regression, or a one-pass method when that would take too long.

Until a fit knows a label, the linear models' scores of it are estimated from its nearest phrase and the mean of its phrases.
The estimate is a regression over held-out texts, made with every fit. Changed and unchanged labels therefore compete on one
scale.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.matching.heads import (
    Classes,
    Floats,
    Head,
    Rescale,
    Tick,
    class_sums,
    curvature,
    directions,
    fit_normal,
    fit_softmax,
    row_products,
)
from turnwise.matching.lexical import PLACES, Lexicon
from turnwise.matching.packed_vectors import AnyVectors

SCORERS = ("meaning", "wording", "nearest", "mean")
_WEIGHTS = np.array([1.2, 0.4, 0.55, 0.25], np.float32)
_WEIGHTS_WITH_SKILLS = np.array([0.6, 0.5, 0.6, 0.4], np.float32)
_WEIGHTS_FEW_EXAMPLES = np.array([0.5, 0.5, 0.5, 0.8], np.float32)
_MANY_EXAMPLES = 10
COSINE_SCALE = 10.0
"""Factor that brings cosines to about the size of the linear models' scores."""

DEFAULT_STAND_INS = np.zeros((0, 0), np.float32)
"""Before they are fitted."""

SHORTLIST = 64
SHORTLISTED_ABOVE = 1_000
"""Above this number of labels, only the `SHORTLIST` best by meaning and nearest phrase are scored by all scorers."""

_STRENGTH, _STEPS = 20.0, 25
_WORDING_STEPS, _WORDING_STEPS_PLAIN = 8, 20
_MEANING_WORK, _WORDING_WORK = 10_000_000, 6_000_000  # (rows + dimensions) × classes: some ten seconds
_CHUNK = 2_000
_LABELS_AT_ONCE = 500

_RIVALS = 10
_RIDGE = 1.0
# Meaning and wording from: one, nearest, mean, lead over the nearest other label. From public data sets.
_UNFITTED = np.array([[-3.0, 0.25, 0.3, 0.5], [-2.0, 0.2, 0.2, 0.3]], np.float32)


class TrainingSet(NamedTuple):
    """The training data: one row per phrase. Rows with owner and skill -1 are ignored."""

    texts: Sequence[str]
    vectors: AnyVectors
    owners: Classes
    """Each row's label."""
    skills: Classes
    parents: Classes
    """The label of each skill."""
    lexicon: Lexicon
    wording: Floats | None
    """Dense n-gram rows; None when they would be too large."""
    rescales: tuple[Rescale | None, Rescale | None]

    def without(self, excluded: NDArray[np.bool_]) -> "TrainingSet":
        """Returns a copy that ignores the `held` rows."""
        if self.wording is None:  # many rows: mark them instead of copying the others
            return self._replace(owners=np.where(excluded, -1, self.owners), skills=np.where(excluded, -1, self.skills))
        used = np.flatnonzero(~excluded).tolist()
        return self._replace(
            texts=[self.texts[row] for row in used],
            vectors=self.vectors[used],
            owners=self.owners[used],
            skills=self.skills[used],
            wording=self.wording[used],
        )


class ScorerOutput(NamedTuple):
    """The scorers' output for some texts."""

    raw_scores: Floats
    """Scores: texts × labels × scorers."""
    labels: Classes | None = None
    """Each row's shortlisted labels; None = all labels in order."""
    meaning: Floats | None = None
    """With a shortlist: the meaning scores of all labels."""

    def scores(self, weights: Floats) -> Floats:
        """Returns the weighted sums for all labels. Labels outside the shortlist rank below it, by meaning alone."""
        scores: Floats = np.asarray(self.raw_scores @ weights, np.float32)
        if self.labels is None or self.meaning is None:
            return scores
        all_scores: Floats = weights[0] * self.meaning
        all_scores += (scores - np.take_along_axis(all_scores, self.labels, axis=1)).min(axis=1, keepdims=True)
        np.minimum(all_scores, scores.min(axis=1, keepdims=True), out=all_scores)
        np.put_along_axis(all_scores, self.labels, scores, axis=1)
        return all_scores

    def positions(self, right: Classes) -> Classes:
        """Returns the index of each row's right label among its scored labels; -1 when it is absent or there is none."""
        if self.labels is None:
            return right
        hits = self.labels == right[:, None]
        return np.where(hits.any(axis=1), hits.argmax(axis=1), -1)


@dataclass(frozen=True, slots=True)
class FittedScorers:
    """The fitted scorers."""

    starts: Classes
    """First skill of each label."""
    meaning: Head
    wording: Head
    lexicon: Lexicon
    means: Floats
    """Skills × dimensions, each row of length 1."""
    stand_ins: Floats
    """Estimates the linear models' scores of a label that they do not know (`fit_stand_ins`)."""

    def weights(self, examples: NDArray[np.integer]) -> Floats:
        """Returns the scorers' default weights, from public data sets of requests.

        Descriptions are worded unlike requests, so a linear model fitted on them says little about requests. With few
        examples, the mean of all phrases weighs more instead. It also weighs more where labels have several skills, each with
        its own mean.

        Args:
            examples: Number of examples of each label.
        """
        exampled = float(np.minimum(np.log1p(examples) / math.log1p(_MANY_EXAMPLES), 1.0).mean())
        with_skills = float((self._skill_counts > 1).mean())
        weights = (1.0 - with_skills) * _WEIGHTS + with_skills * _WEIGHTS_WITH_SKILLS
        return np.asarray(exampled * weights + (1.0 - exampled) * _WEIGHTS_FEW_EXAMPLES, np.float32)

    @property
    def _skill_counts(self) -> Classes:
        """Number of skills of each label."""
        return np.diff(self.starts, append=len(self.means))

    def score(self, texts: Sequence[str], vectors: Floats, best: Floats) -> ScorerOutput:
        """Scores texts. `best` is texts × labels: the cosine of each label's nearest phrase."""
        meaning = self.meaning.scores(vectors)
        if len(self.starts) > SHORTLISTED_ABOVE:
            labels = shortlist(meaning, best)
            wording, mean = self.wording_and_mean(texts, vectors, labels)
            said = np.take_along_axis(meaning, labels, axis=1), np.take_along_axis(best, labels, axis=1)
            return ScorerOutput(np.stack([said[0], wording, COSINE_SCALE * said[1], mean], axis=-1), labels, meaning)
        wording, mean = self.wording_scores(texts), self.mean_scores(vectors)
        return ScorerOutput(np.stack([meaning, wording, COSINE_SCALE * best, mean], axis=-1))

    def mean_scores(self, vectors: Floats) -> Floats:
        """Returns the scores of each label's nearest skill, texts × labels."""
        return np.asarray(
            COSINE_SCALE * np.maximum.reduceat(row_products(vectors, self.means), self.starts, axis=1), np.float32
        )

    def wording_and_mean(self, texts: Sequence[str], vectors: Floats, labels: Classes) -> tuple[Floats, Floats]:
        """Returns the scores by wording and by mean of each row's labels."""
        rows, places, values = self.lexicon.rows(texts)
        bounds = np.searchsorted(rows, np.arange(len(texts) + 1))
        wording, near = np.zeros(labels.shape, np.float32), np.empty(labels.shape, np.float32)
        counts = self._skill_counts
        for row, chosen in enumerate(labels):
            used = slice(bounds[row], bounds[row + 1])
            weights = self.wording.weights[np.ix_(places[used], chosen)].astype(np.float32)
            wording[row] = values[used] @ weights + self.wording.bias[chosen]
            ends = np.cumsum(counts[chosen])
            firsts = ends - counts[chosen]
            skills = np.repeat(self.starts[chosen] - firsts, counts[chosen]) + np.arange(ends[-1])
            near[row] = np.maximum.reduceat(self.means[skills] @ vectors[row], firsts)
        return wording, COSINE_SCALE * near

    def wording_scores(self, texts: Sequence[str]) -> Floats:
        """Returns the scores by wording, texts × labels."""
        if len(texts) == 1:
            _, places, values = self.lexicon.rows(texts)
            # In this thread, as `row_products`.
            weighted = np.einsum("k,kc->c", values, self.wording.weights[places])
            return np.asarray(weighted + self.wording.bias, np.float32)[None]
        chunks = [
            self.wording.scores(self.lexicon.dense(texts[start : start + _CHUNK])) for start in range(0, len(texts), _CHUNK)
        ]
        return np.concatenate(chunks) if chunks else np.empty((0, len(self.wording.bias)), np.float32)


def prepare(texts: Sequence[str], vectors: AnyVectors, owners: Classes, skills: Classes, parents: Classes) -> TrainingSet:
    """Prepares the training data and computes what all its subsets share."""
    lexicon = Lexicon.of(texts)
    labels = int(parents[-1]) + 1
    wording = lexicon.dense(texts) if (len(texts) + PLACES) * labels <= _WORDING_WORK else None
    shared = (
        curvature(vectors[:], strength=_STRENGTH) if _is_fast(vectors, labels) else None,
        None if wording is None else curvature(wording, strength=_STRENGTH),
    )
    return TrainingSet(texts, vectors, owners, skills, parents, lexicon, wording, shared)


def fit_scorers(training: TrainingSet, tick: Tick | None = None) -> FittedScorers:
    """Fits the scorers. Every label needs at least one phrase. `tick` is called during the work."""
    labels = int(training.parents[-1]) + 1
    if training.wording is None and not _is_fast(training.vectors, labels):
        meaning = fit_normal(training.vectors, training.owners, labels)
    else:
        rows = training.owners >= 0
        vectors = training.vectors[:] if rows.all() else training.vectors[rows]
        meaning = fit_softmax(
            vectors, training.owners[rows], labels, strength=_STRENGTH, steps=_STEPS, rescale=training.rescales[0], tick=tick
        )
    # Before the wording, which is the largest.
    means = directions(class_sums(training.vectors, training.skills, len(training.parents)))
    if training.wording is None:
        wording = _sum_wording(training, labels)
    else:
        steps = _WORDING_STEPS if training.rescales[1] else _WORDING_STEPS_PLAIN
        wording = fit_softmax(
            training.wording, training.owners, labels, strength=_STRENGTH, steps=steps, rescale=training.rescales[1], tick=tick
        )
    starts = np.searchsorted(training.parents, np.arange(labels))
    return FittedScorers(starts, meaning, wording, training.lexicon, means, DEFAULT_STAND_INS)


def shortlist(meaning: Floats, best: Floats) -> Classes:
    """Returns the labels that are scored by all scorers, for each row."""
    return np.argpartition(-(meaning + COSINE_SCALE * best), SHORTLIST, axis=1)[:, :SHORTLIST]


def _is_fast(vectors: AnyVectors, classes: int) -> bool:
    return sum(vectors.shape) * classes <= _MEANING_WORK


def _sum_wording(training: TrainingSet, labels: int) -> Head:
    """Returns wording weights without fitting: the sum of each label's rows. Those of very many labels are float16."""
    kind = np.float16 if labels > SHORTLISTED_ABOVE else np.float32
    weights = np.empty((PLACES, labels), kind)
    order = np.argsort(training.owners, kind="stable")
    owners = training.owners[order]
    for first in range(0, labels, _LABELS_AT_ONCE):
        last = min(first + _LABELS_AT_ONCE, labels)
        bounds = np.searchsorted(owners, (first, last))
        weights[:, first:last] = _label_sums(training, order[slice(*bounds)], first, last).T
    return Head(weights, np.zeros(labels, np.float32))


def _label_sums(training: TrainingSet, chosen: Classes, first: int, last: int) -> Floats:
    """Returns the wording of some labels, labels × PLACES. `chosen` has the rows of the labels from `first` up to `last`."""
    sums = np.zeros((last - first) * PLACES, np.float32)
    for start in range(0, len(chosen), _CHUNK):
        some = chosen[start : start + _CHUNK]
        rows, places, values = training.lexicon.rows([training.texts[row] for row in some.tolist()])
        np.add.at(sums, (training.owners[some][rows] - first) * PLACES + places, values)
    return directions(sums.reshape(last - first, PLACES)) * np.float32(COSINE_SCALE)


def nearest_by_label(vectors: Floats, training: TrainingSet, count: int) -> Floats:
    """Returns the cosine of each label's nearest phrase, vectors × labels; -1 for a label without phrases."""
    order = np.argsort(training.owners, kind="stable")
    order = order[training.owners[order] >= 0]
    best = np.full((len(vectors), count), -1.0, np.float32)
    for start in range(0, len(order), _CHUNK):
        rows = order[start : start + _CHUNK]
        found, starts = np.unique(training.owners[rows], return_index=True)
        highest = np.maximum.reduceat(vectors @ training.vectors[rows].T, starts, axis=1)
        best[:, found] = np.maximum(best[:, found], highest)
    return best


def fit_stand_ins(evidence: Floats, right: Classes) -> Floats:
    """Fits the estimates of the scores by meaning and by wording.

    Args:
        evidence: texts × labels × scorers, for texts that the scorers were not fitted on.
        right: Index of each text's right label.

    Returns:
        Two rows of coefficients: for `meaning` and for `wording`.
    """
    if not len(right) or evidence.shape[1] < 2:
        return _UNFITTED
    nearest = evidence[:, :, 2]
    rivals = min(_RIVALS, nearest.shape[1] - 1)
    chosen = np.argpartition(-nearest, rivals, axis=1)[:, :rivals]
    chosen = np.concatenate([right[:, None], chosen], axis=1)
    features = _features(nearest, evidence[:, :, 3])
    inputs = np.take_along_axis(features, chosen[:, :, None], axis=1).reshape(-1, features.shape[2]).astype(np.float64)
    targets = np.take_along_axis(evidence[:, :, :2], chosen[:, :, None], axis=1).reshape(-1, 2).astype(np.float64)
    products = inputs.T @ inputs + _RIDGE * np.eye(inputs.shape[1])
    start = _UNFITTED.T.astype(np.float64)
    return np.asarray((start + np.linalg.solve(products, inputs.T @ (targets - inputs @ start))).T, np.float32)


def _features(nearest: Floats, mean: Floats) -> Floats:
    """Returns what the estimates depend on, texts × labels × 4."""
    order = np.argpartition(-nearest, 1, axis=1)[:, :2]
    two = np.take_along_axis(nearest, order, axis=1)
    first = order[np.arange(len(order)), two.argmax(axis=1)]
    highest, second = two.max(axis=1), two.min(axis=1)
    is_first = np.arange(nearest.shape[1]) == first[:, None]
    lead = nearest - np.where(is_first, second[:, None], highest[:, None])
    return np.stack([np.ones_like(nearest), nearest, mean, lead], axis=-1)


class PatchedScorers(NamedTuple):
    """Fitted scorers over other labels than they were fitted to."""

    fitted: FittedScorers
    columns: Classes
    """For each label, its number among the fitted labels; -1 = its phrases changed, or it is new."""
    means: Floats
    """The mean direction of each label with -1, in order."""

    def score(self, texts: Sequence[str], vectors: Floats, best: Floats) -> ScorerOutput:
        """Scores texts, as `FittedScorers.score`."""
        unknown, known = np.flatnonzero(self.columns < 0), np.flatnonzero(self.columns >= 0)
        mean = np.zeros(best.shape, np.float32)
        mean[:, unknown] = COSINE_SCALE * row_products(vectors, self.means)
        estimates = self._estimates(best, mean, unknown)
        meaning = np.empty(best.shape, np.float32)
        meaning[:, known] = self.fitted.meaning.scores(vectors)[:, self.columns[known]]
        meaning[:, unknown] = estimates[0]
        if len(self.columns) > SHORTLISTED_ABOVE:
            return self._score_shortlist(texts, vectors, best, meaning, mean, estimates[1])
        mean[:, known] = self.fitted.mean_scores(vectors)[:, self.columns[known]]
        wording = np.empty(best.shape, np.float32)
        wording[:, known] = self.fitted.wording_scores(texts)[:, self.columns[known]]
        wording[:, unknown] = estimates[1]
        return ScorerOutput(np.stack([meaning, wording, COSINE_SCALE * best, mean], axis=-1))

    def _estimates(self, best: Floats, mean: Floats, unknown: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Returns the estimated scores of the unknown labels, texts × unknown: by meaning and by wording."""
        if best.shape[1] < 2 or not len(unknown):
            return mean[:, unknown], mean[:, unknown]
        features = _features(COSINE_SCALE * best, mean)[:, unknown]
        coefficients = self.fitted.stand_ins if self.fitted.stand_ins.size else _UNFITTED
        return features @ coefficients[0], features @ coefficients[1]

    def _score_shortlist(
        self, texts: Sequence[str], vectors: Floats, best: Floats, meaning: Floats, mean: Floats, wording: Floats
    ) -> ScorerOutput:
        """Scores a shortlist of labels; labels that the fitted models do not know get estimates."""
        labels = shortlist(meaning, best)
        columns = self.columns[labels]
        by_wording, by_mean = self.fitted.wording_and_mean(texts, vectors, np.maximum(columns, 0))
        numbers = np.cumsum(self.columns < 0) - 1
        estimated = np.take_along_axis(wording, np.maximum(numbers[labels], 0), axis=1) if wording.shape[1] else by_wording
        is_unknown = columns < 0
        by_wording = np.where(is_unknown, estimated, by_wording)
        by_mean = np.where(is_unknown, np.take_along_axis(mean, labels, axis=1), by_mean)
        said, near = np.take_along_axis(meaning, labels, axis=1), np.take_along_axis(best, labels, axis=1)
        return ScorerOutput(np.stack([said, by_wording, COSINE_SCALE * near, by_mean], axis=-1), labels, meaning)
