"""Whether a text belongs to none of the labels."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.matching.heads import Floats
from turnwise.matching.scorers import COSINE_SCALE, OPINIONS
from turnwise.matching.solver import minimize

REFUSED = 0.03
"""So many of the requests that do belong may be taken for strangers, when nothing else is known."""

SURELY_REFUSED, SURELY = 0.005, 0.85
"""So many of them may have a novelty above this."""

STRANGERS = 0.2
"""At least so large a share of what comes is for nobody: a file of examples has fewer of these than use brings."""

_WEIGHTS = {"meaning": 1.0, "wording": 0.6, "nearest": 1.0, "mean": 0.6}
_LEAST = 50
_SHARPNESS, _SHARPEST = 2.0, 4.0
_BELONGING, _NEAREST = 0, 1
# Agents drawn from public sets, 2 to 5 with 2 to 5 examples each: of 100 requests that belong 1 to 3 lie lower, of 100 texts
# without a meaning 97 to 99. The more phrases there are, the nearer comes one by chance; beyond a score more of those that
# belong would be lost than of the others found.
_UNLIKE, _UNLIKE_PER_LOG, _UNLIKE_MOST, _UNLIKE_SCALE = 0.22, 0.034, 20, 0.03
_NOTHING = -1.0


class Gate(NamedTuple):
    """A logistic curve over one of a text's signs, and one over the nearest phrase's cosine: the higher one counts.

    sign: which; threshold: where the novelty is 0.5; scale: how wide. unlike: the cosine where it is 0.5 whatever the sign.
    """

    sign: NDArray[np.int64]
    threshold: NDArray[np.float64]
    scale: NDArray[np.float64]
    unlike: NDArray[np.float64]

    def novelty(self, signs: Floats) -> NDArray[np.float64]:
        """0 to 1; above 0.5 nobody should take it."""
        below = (self.threshold - signs[:, int(self.sign)].astype(np.float64)) / self.scale
        apart = (self.unlike - signs[:, _NEAREST].astype(np.float64)) / _UNLIKE_SCALE
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(np.maximum(below, apart), -40.0, 40.0))))


def default_gate(phrases: int) -> Gate:
    """The gate when there was nothing to try it with: what is unlike every phrase is for nobody.

    phrases: how many there are of labels that have examples. Where only a name or a description is known, requests that
    belong may be far from it: such labels do not count.
    """
    unlike = np.array(_UNLIKE + _UNLIKE_PER_LOG * math.log(min(max(phrases, 1), _UNLIKE_MOST)))
    return Gate(np.array(_NEAREST), unlike, np.array(_UNLIKE_SCALE), unlike)


def signs(evidence: Floats, opinions: Sequence[str] = OPINIONS) -> Floats:
    """How much speaks for a text belonging to some label: all opinions of the best label together; the nearest phrase's cosine.

    evidence: texts × labels × opinions. The scores are taken as they are, not as shares of all labels': a text that fits
    nothing has low ones everywhere.
    """
    weights = np.array([_WEIGHTS[opinion] for opinion in opinions], np.float32)
    nearest = evidence[:, :, opinions.index("nearest")].max(axis=1) / COSINE_SCALE
    return np.stack([(evidence @ weights).max(axis=1), nearest], axis=1)


def fit_gate(gate: Gate, signs: Floats, counts: Floats) -> Gate:
    """A gate for texts that do belong and were not learned from: REFUSED of them score above 0.5, SURELY_REFUSED above SURELY.

    gate: the one without any text, which stays when there are too few. counts: how much each text counts.
    """
    if len(signs) < _LEAST:
        return gate
    belonging = signs[:, _BELONGING].astype(np.float64)
    order = np.argsort(belonging, kind="stable")
    share = np.cumsum(counts[order], dtype=np.float64) / counts.sum(dtype=np.float64)
    refused, surely = belonging[order][np.searchsorted(share, (REFUSED, SURELY_REFUSED))]
    spread = max(float(belonging.std()), 1e-3)
    scale = spread / _SHARPNESS
    if len(signs) * SURELY_REFUSED >= 1.0:  # in fewer texts nothing so rare is seen
        apart = float(refused - surely) / math.log(SURELY / (1.0 - SURELY))
        scale = max(apart, spread / _SHARPEST)
    return Gate(np.array(_BELONGING), refused, np.array(scale), gate.unlike)


def tune_gate(gate: Gate, signs: Floats, right: NDArray[np.bool_], strange: NDArray[np.bool_]) -> Gate:
    """The gate under which the most texts are served right: taken by whom they should be, or refused.

    right: whether the text would go to whom it should. strange: whether nobody should take it. Refusing what would go wrong
    anyway costs nothing, so the curve is the logistic regression between the right and the strange.
    """
    if not (strange.any() and right.any()):
        return gate
    used = right | strange
    sign = signs[used, _BELONGING].astype(np.float64)
    weight = np.ones(len(sign))
    share = strange.mean()
    if share < STRANGERS:
        weight[strange[used]] = STRANGERS / (1.0 - STRANGERS) * (1.0 - share) / share
    middle, spread = float(sign.mean()), max(float(sign.std()), 1e-3)
    slope, bias = _logistic((sign - middle) / spread, strange[used], weight)
    if slope > -1e-3:  # the strange look no stranger
        return gate
    threshold, scale = np.array(middle - bias / slope * spread), np.array(-spread / slope)
    return Gate(np.array(_BELONGING), threshold, scale, np.array(_NOTHING))  # what strangers look like is known now


def _logistic(sign: NDArray[np.float64], strange: NDArray[np.bool_], weight: NDArray[np.float64]) -> tuple[float, float]:
    """Slope and bias of the likeliest logistic curve from sign to strange."""
    inputs = np.stack([sign, np.ones_like(sign)], axis=1)

    def objective(point: Floats) -> tuple[float, Floats]:
        logits = inputs @ point.astype(np.float64)
        loss = weight @ (np.logaddexp(0.0, logits) - strange * logits)
        gradient = (weight * (1.0 / (1.0 + np.exp(-logits)) - strange)) @ inputs
        loss += 0.5 * 1e-3 * float(point @ point)
        return float(loss / len(sign)), ((gradient + 1e-3 * point) / len(sign)).astype(np.float32)

    slope, bias = minimize(objective, np.zeros(2, np.float32), steps=100, tolerance=1e-6).tolist()
    return slope, bias
