"""Novelty: the probability that a text is out of scope, which means that it belongs to no label.

Small apps learn how near out-of-scope texts come from strangers: a shipped sample of everyday requests that are nobody's.
"""

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.matching.heads import Classes, Floats, minimize
from turnwise.matching.index import Index
from turnwise.matching.match import Phrase
from turnwise.matching.scorers import COSINE_SCALE, SCORERS, FittedScorers

REJECTED = 0.03
"""Default share of in-scope requests that may get a novelty above 0.5."""

SURELY_REJECTED, SURELY = 0.005, 0.85
"""Default share of in-scope requests with a novelty above `SURELY`."""

MIN_OUT_OF_SCOPE_SHARE = 0.2
"""Assumed minimum share of out-of-scope messages. Labelled files contain fewer of them than real traffic."""

_WEIGHTS = {"meaning": 1.0, "wording": 0.6, "nearest": 1.0, "mean": 0.6}
_LEAST = 50
FEW, FEWEST = 200, 30
"""With fewer than FEW held-out examples, but at least FEWEST, the gate is fitted to the sample of strangers."""
UNLIKE_APP = 0.5
"""A stranger of the sample counts only below this cosine with all phrases of the app."""
# The share of strangers, and among them of those of the app's own subjects. Held-out examples score lower than messages do, as
# the scorers lack them: the share makes up for it.
_STRANGERS, _NEAR = 0.4, 0.3
_SHARPNESS, _SHARPEST = 2.0, 4.0
_BELONGING, _NEAREST = 0, 1
# From public data sets, with 2 to 5 agents of 2 to 5 examples each: 1 to 3 % of in-scope requests have a lower cosine, and 97
# to 99 % of meaningless texts. More phrases raise the cosine of chance neighbours; beyond 20 phrases a higher threshold would
# lose more in-scope requests than it would find others.
_UNLIKE, _UNLIKE_PER_LOG, _UNLIKE_MOST, _UNLIKE_SCALE = 0.245, 0.034, 20, 0.03
_NOTHING = -1.0
_NEVER = -1e6  # a score that no label has

DATA = Path(__file__).parent / "data"
TEXTS_FILE, VECTORS_FILE = DATA / "strangers.json", DATA / "strangers.npy"


class Gate(NamedTuple):
    """Maps a text's signals to its novelty: the higher of two logistic curves.

    One curve is over the chosen signal, the other over the nearest phrase's cosine.
    """

    sign: NDArray[np.int64]
    """Column of the chosen signal."""
    threshold: NDArray[np.float64]
    """Value of the signal where the novelty is 0.5."""
    scale: NDArray[np.float64]
    """Width of the curve."""
    unlike: NDArray[np.float64]
    """Cosine where the second curve is 0.5."""

    def novelty(self, signals: Floats) -> NDArray[np.float64]:
        """Returns the novelty of each text, 0 to 1. Above 0.5, out of scope is more likely."""
        below = (self.threshold - signals[:, int(self.sign)].astype(np.float64)) / self.scale
        distance = (self.unlike - signals[:, _NEAREST].astype(np.float64)) / _UNLIKE_SCALE
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(np.maximum(below, distance), -40.0, 40.0))))


class Strangers(NamedTuple):
    """Texts that belong to no agent of most apps, with one row of length 1 for each."""

    texts: tuple[str, ...]
    vectors: NDArray[np.float32]

    def unlike(self, vectors: NDArray[np.float32], limit: float) -> "Strangers":
        """Returns the strangers with a cosine below the limit to all these vectors: some apps are for such requests."""
        kept = np.flatnonzero((self.vectors @ vectors.T).max(axis=1, initial=-1.0) < limit)
        return Strangers(tuple(self.texts[place] for place in kept.tolist()), self.vectors[kept])


def default_gate(phrases: int) -> Gate:
    """Returns the gate to use without calibration data: texts that resemble no phrase are out of scope.

    `phrases` counts only phrases of labels that have examples. For labels with just a name or a description, in-scope requests
    may be far from it.
    """
    unlike = np.array(_UNLIKE + _UNLIKE_PER_LOG * math.log(min(max(phrases, 1), _UNLIKE_MOST)))
    return Gate(np.array(_NEAREST), unlike, np.array(_UNLIKE_SCALE), unlike)


def gate_for(phrases: Sequence[Phrase]) -> Gate:
    """Returns the gate before it is fitted, by the number of phrases of labels with examples."""
    exemplified = {phrase.label for phrase in phrases if phrase.kind == "example"}
    return default_gate(sum(phrase.label in exemplified for phrase in phrases))


def signals(evidence: Floats, scorers: Sequence[str] = SCORERS) -> Floats:
    """Returns two signals per text that it belongs to any label: the best label's weighted score, and the nearest cosine.

    `evidence` is texts × labels × scorers. It holds raw scores, not softmax shares, because an out-of-scope text scores low for
    every label.
    """
    weights = np.array([_WEIGHTS[scorer] for scorer in scorers], np.float32)
    nearest = evidence[:, :, scorers.index("nearest")].max(axis=1) / COSINE_SCALE
    return np.stack([(evidence @ weights).max(axis=1), nearest], axis=1)


def fit_gate(gate: Gate, signals: Floats, counts: Floats) -> Gate:
    """Calibrates a gate on in-scope texts that the scorers were not fitted on.

    A share `REJECTED` of them gets a novelty above 0.5, and `SURELY_REJECTED` above `SURELY`.

    Args:
        gate: The default gate, returned unchanged when there are too few texts.
        signals: The texts' signals.
        counts: Weight of each text.
    """
    if len(signals) < _LEAST:
        return gate
    belonging = signals[:, _BELONGING].astype(np.float64)
    order = np.argsort(belonging, kind="stable")
    share = np.cumsum(counts[order], dtype=np.float64) / counts.sum(dtype=np.float64)
    rejected, surely = belonging[order][np.searchsorted(share, (REJECTED, SURELY_REJECTED))]
    spread = max(float(belonging.std()), 1e-3)
    scale = spread / _SHARPNESS
    if len(signals) * SURELY_REJECTED >= 1.0:  # fewer texts cannot show so rare a case
        distance = float(rejected - surely) / math.log(SURELY / (1.0 - SURELY))
        scale = max(distance, spread / _SHARPEST)
    return Gate(np.array(_BELONGING), rejected, np.array(scale), gate.unlike)


def fit_gate_by_strangers(gate: Gate, signals: Floats, counts: Floats, *, near: Floats, far: Floats) -> Gate:
    """Calibrates a gate for an app with few examples, by how near strangers come.

    The curve is a logistic regression between the app's own texts and strangers.

    Args:
        gate: The gate so far, returned unchanged when the groups cannot be separated.
        signals: The signals of in-scope texts that the scorers were not fitted on.
        counts: Weight of each of these.
        near: The signals of the same texts for other labels than their own: strangers of the app's own subjects.
        far: The signals of texts that belong to no label; must not be empty.
    """
    groups = [each[:, _BELONGING].astype(np.float64) for each in (signals, near, far)]
    shares = (1.0 - _STRANGERS, _STRANGERS * _NEAR, _STRANGERS * (1.0 - _NEAR))
    weights = [counts / counts.sum(), *(np.full(len(each), 1.0 / len(each)) for each in groups[1:])]
    sign = np.concatenate(groups)
    weight = np.concatenate([share * each for share, each in zip(shares, weights, strict=True)]) * len(sign)
    out_of_scope = np.arange(len(sign)) >= len(signals)
    return _curve(sign, out_of_scope, weight) or gate


def gate_by_strangers(
    gate: Gate, evidence: Floats, right: Classes, counts: Floats, scorers: FittedScorers, index: Index, strangers: Strangers
) -> Gate:
    """Fits the gate by the held-out examples, as texts of their label and as strangers to the others, and by strangers."""
    if not strangers.texts or evidence.shape[1] < 2:
        return gate
    others = evidence.copy()
    others[np.arange(len(others)), right] = _NEVER
    best = np.stack([each.best for each in index.search_many(strangers.vectors)])
    far = scorers.score(strangers.texts, strangers.vectors, best).raw_scores
    return fit_gate_by_strangers(gate, signals(evidence), counts, near=signals(others), far=signals(far))


def tune_gate(gate: Gate, signals: Floats, right: NDArray[np.bool_], out_of_scope: NDArray[np.bool_]) -> Gate:
    """Fits the gate that handles the most texts correctly: by the right label, or as out of scope.

    Texts that would go to a wrong label are ignored, since rejecting them costs nothing. The curve is a logistic regression
    between the other two groups.

    Args:
        gate: The current gate, returned unchanged when the groups cannot be separated.
        signals: The texts' signals.
        right: True if the text would go to its right label.
        out_of_scope: Whether the text is out of scope.
    """
    if not (out_of_scope.any() and right.any()):
        return gate
    used = right | out_of_scope
    sign = signals[used, _BELONGING].astype(np.float64)
    weight = np.ones(len(sign))
    share = out_of_scope.mean()
    if share < MIN_OUT_OF_SCOPE_SHARE:
        weight[out_of_scope[used]] = MIN_OUT_OF_SCOPE_SHARE / (1.0 - MIN_OUT_OF_SCOPE_SHARE) * (1.0 - share) / share
    return _curve(sign, out_of_scope[used], weight) or gate


def _curve(sign: NDArray[np.float64], out_of_scope: NDArray[np.bool_], weight: NDArray[np.float64]) -> Gate | None:
    """Returns the gate of a logistic regression between the groups; None when the signal does not separate them."""
    middle, spread = float(sign.mean()), max(float(sign.std()), 1e-3)
    slope, bias = _logistic((sign - middle) / spread, out_of_scope, weight)
    if slope > -1e-3:
        return None
    threshold, scale = np.array(middle - bias / slope * spread), np.array(-spread / slope)
    # The strangers seen replace the default for dissimilar texts.
    return Gate(np.array(_BELONGING), threshold, scale, np.array(_NOTHING))


def _logistic(sign: NDArray[np.float64], out_of_scope: NDArray[np.bool_], weight: NDArray[np.float64]) -> tuple[float, float]:
    """Fits a logistic curve from the signal to out of scope; returns slope and bias."""
    inputs = np.stack([sign, np.ones_like(sign)], axis=1)

    def objective(point: Floats) -> tuple[float, Floats]:
        logits = inputs @ point.astype(np.float64)
        loss = weight @ (np.logaddexp(0.0, logits) - out_of_scope * logits)
        gradient = (weight * (1.0 / (1.0 + np.exp(-logits)) - out_of_scope)) @ inputs
        loss += 0.5 * 1e-3 * float(point @ point)
        return float(loss / len(sign)), ((gradient + 1e-3 * point) / len(sign)).astype(np.float32)

    slope, bias = minimize(objective, np.zeros(2, np.float32), steps=100, tolerance=1e-6).tolist()
    return slope, bias


def shipped_strangers(encoder: str) -> Strangers | None:
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
