"""Several opinions about which label a text belongs to, made into one: a weighted sum whose weights are learned."""

import numpy as np

from turnwise.matching.heads import Classes, Floats, log_softmax
from turnwise.matching.solver import Tick, minimize

HELD_OUT, HEARD = 40.0, 4.0
"""So many texts do the expected weights count like: where texts are held out of a file of examples, which are more like each
other than like what users say; and where users said them.
"""

_TRUST_PER_LABEL = 2.0
_HIGHEST_LOG = 4.0


def fit_weights(
    evidence: Floats,
    right: Classes,
    expected: Floats,
    *,
    trust: float,
    counts: Floats | None = None,
    tick: Tick | None = None,
) -> Floats:
    """The weights under which the right labels are likeliest; the sums' probabilities are then calibrated.

    evidence: texts × labels × opinions, of texts that those who hold the opinions did not learn from. expected: the weights
    without any text; they count like `trust` texts, and like many more when a label has but one or two: with one held out, too
    little was left to learn from. None is below zero.
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
        held = np.einsum("nc,nck->k", np.exp(scores) * counts[:, None], evidence, optimize=True)
        away = logs - middle
        gradient = (held - chosen) / np.float32(len(right)) * weights + pull * away
        return loss + 0.5 * float(pull) * float(away @ away), np.asarray(gradient, np.float32)

    return np.exp(minimize(objective, middle, steps=60, tolerance=1e-5, tick=tick))
