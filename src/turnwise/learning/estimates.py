"""Accuracy and calibration of all decisions, estimated from the labels of a few (behaviour H2)."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from turnwise.learning.judged import Judged
from turnwise.learning.measures import Bin

BINS = 10
_Z = 1.645
"""The interval covers 90 %."""


class Estimate(NamedTuple):
    """The estimated share of right decisions, with an interval that covers 90 %."""

    share: float
    low: float
    high: float
    labels: int
    """The number of labels that it is from."""
    how: Literal["random", "inverse probability"]


def estimable(judged: Sequence[Judged]) -> list[tuple[Judged, float]]:
    """Returns the labels from which all decisions can be estimated, with their weights.

    Labels with a known probability weigh its inverse (Horvitz and Thompson, Journal of the American Statistical Association 47,
    1952). Without any of these, randomly picked labels weigh the same. All other labels, such as complaints, are left out:
    they are where the router errs.
    """
    known = [(each, 1.0 / each.probability) for each in judged if each.probability is not None]
    return known or [(each, 1.0) for each in judged if each.is_random]


def accuracy(judged: Sequence[Judged]) -> Estimate | None:
    """Returns the estimated accuracy; None without labels to estimate it from.

    The interval is Wilson's, for the effective number of labels (Kish, Survey Sampling, 1965).
    """
    sample = estimable(judged)
    if not sample:
        return None
    total = math.fsum(weight for _, weight in sample)
    share = math.fsum(weight for each, weight in sample if each.is_right) / total
    effective = total**2 / math.fsum(weight**2 for _, weight in sample)
    low, high = wilson(share, effective)
    equal = len({weight for _, weight in sample}) == 1
    return Estimate(share, low, high, len(sample), "random" if equal else "inverse probability")


def wilson(share: float, count: float) -> tuple[float, float]:
    """Returns the bounds of Wilson's interval for a share of `count` independent observations."""
    spread = _Z**2 / count
    middle = (share + spread / 2) / (1 + spread)
    width = _Z / (1 + spread) * math.sqrt(share * (1 - share) / count + spread / (4 * count))
    return max(middle - width, 0.0), min(middle + width, 1.0)


def calibration(judged: Sequence[Judged]) -> tuple[list[Bin], float | None]:
    """Returns bins of the confidence with the estimated share that was right, and the mean distance between both.

    The distance is None without labels to estimate it from. Questions to the user are left out: they have no confidence.
    """
    bins: dict[int, list[tuple[Judged, float]]] = {}
    for each, weight in estimable(judged):
        if each.chosen is not None:
            bins.setdefault(min(int(each.confidence * BINS), BINS - 1), []).append((each, weight))
    found, distance, total = [], 0.0, 0.0
    for number, sample in sorted(bins.items()):
        size = math.fsum(weight for _, weight in sample)
        confidence = math.fsum(weight * each.confidence for each, weight in sample) / size
        right = math.fsum(weight for each, weight in sample if each.is_right) / size
        found.append(Bin(number / BINS, (number + 1) / BINS, len(sample), confidence, right))
        distance, total = distance + size * abs(confidence - right), total + size
    return found, distance / total if total else None
