"""Paired differences of two policies, with intervals by session (H3)."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES, LEVEL = 2_000, 0.9
_UNSEEN = 0.5


class Difference(NamedTuple):
    """The mean change of accuracy, with the bounds of its interval. All are shares, -1 to 1."""

    mean: float
    low: float
    high: float
    decisions: int
    """The number of decisions."""

    @property
    def is_loss(self) -> bool:
        """Whether the whole interval is below zero."""
        return self.high < 0


def paired_difference(
    before: Sequence[float],
    after: Sequence[float],
    groups: Sequence[str],
    *,
    weights: Sequence[float] | None = None,
    seed: int = 0,
    level: float = LEVEL,
) -> Difference:
    """Returns the change of accuracy on the same messages, with an interval over groups such as sessions.

    Messages of a session are not independent, so whole groups are weighted: the Bayesian bootstrap (Rubin, The Annals of
    Statistics 9, 1981). Two groups with half the weight stand for what was not seen, one better and one worse. A single message
    therefore proves nothing. The interval holds the mean. The same seed gives the same interval.
    Without messages, all values are 0.

    Args:
        before: Whether each message was right before, or the probability that it was.
        after: The same now.
        groups: The group of each message.
        weights: How much each message counts; None = all alike.
        seed: The seed of the draws.
        level: The probability that the interval covers.
    """
    if not before:
        return Difference(0.0, 0.0, 0.0, 0)
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for was, is_, group, weight in zip(before, after, groups, weights or [1.0] * len(before), strict=True):
        sums[group][0] += weight * (is_ - was)
        sums[group][1] += weight
    change, size = np.array([sums[name] for name in sorted(sums)], dtype=np.float64).T
    mean = float(change.sum() / size.sum()) if size.sum() else 0.0
    change, size = np.append(change, [_UNSEEN, -_UNSEEN]), np.append(size, [_UNSEEN, _UNSEEN])
    draws = np.random.default_rng(seed).standard_exponential((RESAMPLES, len(change)))
    means = (draws @ change) / (draws @ size)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    # The two that were not seen draw it towards 0: where all messages change alike, it would end before their mean.
    return Difference(mean, min(float(low), mean), max(float(high), mean), len(before))
