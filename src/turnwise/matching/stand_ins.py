"""Scores for labels that the fitted models do not know, on the same scale: until a fit knows them, nearest phrases stand in.

The linear models' scores of a label are estimated from its nearest phrase and the mean of its phrases. The estimate is a
regression over held-out texts, made with every fit. Changed and unchanged labels therefore compete on one scale.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.matching.heads import Classes, Floats, row_products
from turnwise.matching.scorers import COSINE_SCALE, SHORTLISTED_ABOVE, FittedScorers, ScorerOutput, shortlist

_RIVALS = 10
_RIDGE = 1.0
# Meaning and wording from: one, nearest, mean, lead over the nearest other label. From public data sets.
_DEFAULT = np.array([[-3.0, 0.25, 0.3, 0.5], [-2.0, 0.2, 0.2, 0.3]], np.float32)


def fit_stand_ins(evidence: Floats, right: Classes) -> Floats:
    """Fits the estimates of the scores by meaning and by wording.

    Args:
        evidence: texts × labels × scorers, for texts that the scorers were not fitted on.
        right: Index of each text's right label.

    Returns:
        Two rows of coefficients: for `meaning` and for `wording`.
    """
    if not len(right) or evidence.shape[1] < 2:
        return _DEFAULT
    nearest = evidence[:, :, 2]
    rivals = min(_RIVALS, nearest.shape[1] - 1)
    chosen = np.argpartition(-nearest, rivals, axis=1)[:, :rivals]
    chosen = np.concatenate([right[:, None], chosen], axis=1)
    features = _features(nearest, evidence[:, :, 3])
    inputs = np.take_along_axis(features, chosen[:, :, None], axis=1).reshape(-1, features.shape[2]).astype(np.float64)
    targets = np.take_along_axis(evidence[:, :, :2], chosen[:, :, None], axis=1).reshape(-1, 2).astype(np.float64)
    products = inputs.T @ inputs + _RIDGE * np.eye(inputs.shape[1])
    start = _DEFAULT.T.astype(np.float64)
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
        coefficients = self.fitted.stand_ins if self.fitted.stand_ins.size else _DEFAULT
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
