"""Accuracy and calibration of all decisions, estimated from the labels of a few (behaviour H2).

A judged decision is one with the label that counts.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from turnwise.learning.measures import Bin
from turnwise.learning.traffic import effective
from turnwise.ports.decisions import Decision

BINS = 10
_Z = 1.645
"""The interval covers 90 %."""

ASKED = "(asks the user)"
"""Stands for a question to the user in place of an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A decision as the label that counts judges it."""

    chosen: str | None
    """The agent that was chosen; None for a question to the user."""
    expected: str
    """The agent that should have been chosen; the default agent for nobody."""
    confidence: float
    is_random: bool
    """Whether it was picked at random."""
    probability: float | None
    """The probability with which it was picked; None means unknown."""

    @property
    def is_right(self) -> bool:
        return self.chosen == self.expected


def judged(decision: Decision, default: str) -> Judged | None:
    """Returns the decision with the label that counts: the operators' newest, else the heaviest; None without one.

    A label whose author is unsure does not count.

    Args:
        decision: The decision, with its labels.
        default: The default agent. It stands for the label that no agent should have been chosen.
    """
    label = effective(decision.labels) if decision.labels else None
    if label is None:
        return None
    return Judged(
        chosen=decision.selection.agent if decision.selection.outcome == "chosen" else None,
        expected=label.agent or default,
        confidence=decision.selection.confidence,
        is_random=label.picked == "random",
        probability=label.probability,
    )


class Estimate(NamedTuple):
    """The estimated share of right decisions, with an interval that covers 90 %."""

    share: float
    low: float
    high: float
    labels: int
    """The number of labels that it is from."""
    how: Literal["random", "inverse probability"]


class Estimator:
    """Estimates the accuracy and calibration of all decisions from labels. It keeps sums, not the labels.

    Labels with a known probability weigh its inverse (Horvitz and Thompson, Journal of the American Statistical Association 47,
    1952). Without any of these, randomly picked labels weigh the same. All other labels, such as complaints, are left out:
    they are where the router errs.
    """

    def __init__(self) -> None:
        self._known, self._random = _Sums(), _Sums()

    def add(self, judged: Judged) -> None:
        """Adds a labelled decision."""
        if judged.probability is not None:
            self._known.add(judged, 1.0 / judged.probability)
        elif judged.is_random:
            self._random.add(judged, 1.0)

    @property
    def _sums(self) -> "_Sums":
        return self._known if self._known.every.labels else self._random

    def accuracy(self) -> Estimate | None:
        """Returns the estimated accuracy; None without labels to estimate it from.

        The interval is Wilson's, for the effective number of labels (Kish, Survey Sampling, 1965).
        """
        sums = self._sums
        found = sums.every
        if not found.labels:
            return None
        share = found.right / found.weight
        low, high = wilson(share, found.weight**2 / sums.squares)
        return Estimate(share, low, high, found.labels, "random" if sums.least == sums.most else "inverse probability")

    def calibration(self) -> tuple[list[Bin], float | None]:
        """Returns bins of the confidence with the estimated share that was right, and the mean distance between both.

        The distance is None without labels to estimate it from. Questions to the user are left out: they have no confidence.
        """
        bins, distance, total = list[Bin](), 0.0, 0.0
        for number, each in sorted(self._sums.bins.items()):
            confidence, right = each.confidence / each.weight, each.right / each.weight
            bins.append(Bin(number / BINS, (number + 1) / BINS, each.labels, confidence, right))
            distance, total = distance + each.weight * abs(confidence - right), total + each.weight
        return bins, distance / total if total else None


@dataclass(slots=True)
class _Sum:
    """Sums over some labels."""

    labels: int = 0
    weight: float = 0.0
    right: float = 0.0
    """The weight of the right decisions."""
    confidence: float = 0.0
    """The sum of the confidences by weight."""

    def add(self, judged: Judged, weight: float) -> None:
        self.labels += 1
        self.weight += weight
        self.right += weight * judged.is_right
        self.confidence += weight * judged.confidence


@dataclass(slots=True)
class _Sums:
    """Sums over all labels of one kind, and by confidence."""

    every: _Sum = field(default_factory=_Sum)
    squares: float = 0.0
    """The sum of the squared weights."""
    least: float = math.inf
    most: float = 0.0
    bins: defaultdict[int, _Sum] = field(default_factory=lambda: defaultdict(_Sum))

    def add(self, judged: Judged, weight: float) -> None:
        self.every.add(judged, weight)
        self.squares += weight**2
        self.least, self.most = min(self.least, weight), max(self.most, weight)
        if judged.chosen is not None:
            self.bins[min(int(judged.confidence * BINS), BINS - 1)].add(judged, weight)


def wilson(share: float, count: float) -> tuple[float, float]:
    """Returns the bounds of Wilson's interval for a share of `count` independent observations."""
    spread = _Z**2 / count
    middle = (share + spread / 2) / (1 + spread)
    width = _Z / (1 + spread) * math.sqrt(share * (1 - share) / count + spread / (4 * count))
    return max(middle - width, 0.0), min(middle + width, 1.0)
