"""Sequential statistics: intervals and tests that hold at every look, however often one looks (behaviour H7).

The intervals are confidence sequences by Robbins' normal mixture (H. Robbins, "Statistical methods related to the law of the
iterated logarithm", The Annals of Mathematical Statistics 41, 1970), applied to a difference of means with an estimated
variance (I. Waudby-Smith, D. Arbour, R. Sinha, E. Kennedy, A. Ramdas, "Time-uniform central limit theory and asymptotic
confidence sequences", The Annals of Statistics 52, 2024; R. Johari, P. Koomen, L. Pekelis, D. Walsh, "Always valid inference",
Operations Research 70, 2022). They are asymptotic, so they begin at a least number of units. The test of counts is exact
(M. Lindon, A. Malek, "Anytime-valid inference for multinomial count data", Advances in Neural Information Processing Systems
35, 2022).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXPECTED_EFFECT = 0.02
"""The standard deviation of the mixture: the intervals are the narrowest for differences of this size."""
COUNT_PRIOR = 100.0
"""How strongly the test of counts expects the right shares."""


def mixture_width(variance: "NDArray[np.float64]", alpha: float, effect: float = EXPECTED_EFFECT) -> "NDArray[np.float64]":
    """Returns half the width of the interval around an estimate.

    Args:
        variance: The variance of the estimate at each look.
        alpha: The probability that the estimated value is ever outside.
        effect: The standard deviation of the mixture.
    """
    information, prior = 1.0 / variance, effect**-2
    width: NDArray[np.float64] = (
        np.sqrt((information + prior) * np.log((information + prior) / (prior * alpha**2))) / information
    )
    return width


@dataclass(frozen=True, slots=True)
class Differences:
    """The difference of two means at every look, with its interval. Before the first interval, it is -1 to 1."""

    estimates: "NDArray[np.float64]"
    low: "NDArray[np.float64]"
    high: "NDArray[np.float64]"

    @property
    def first_above(self) -> int | None:
        """The first look with an interval above zero; None if there is none."""
        return _first(self.low > 0)

    @property
    def first_below(self) -> int | None:
        """The first look with an interval below zero; None if there is none."""
        return _first(self.high < 0)

    def first_worse(self, bound: float) -> int | None:
        """Returns the first look with an interval below `-bound`; None if there is none."""
        return _first(self.high < -bound)


def differences(
    values: "NDArray[np.float64]",
    treated: "NDArray[np.bool_]",
    parts: "NDArray[np.int64] | None" = None,
    *,
    alpha: float,
    least: int,
    effect: float = EXPECTED_EFFECT,
) -> Differences:
    """Returns the mean of the treated units minus that of the others, after each unit.

    With several parts, such as times before and after a change, the units are compared within each part. The parts weigh by
    their units.

    Args:
        values: A value between 0 and 1 for each independent unit, in the order in which the units count.
        treated: Whether each unit has the treatment.
        parts: The part of each unit, from 0. None = all are in one part.
        alpha: The probability that the true difference is ever outside of the interval.
        least: How many units each side needs before there is an interval.
        effect: As for `mixture_width`.
    """
    size = len(values)
    weighted, spread, weight = np.zeros(size), np.zeros(size), np.zeros(size)
    for part in range(int(parts.max()) + 1 if parts is not None and size else 1):
        is_here = np.ones(size, dtype=np.bool_) if parts is None else parts == part
        sides = [_running(values, is_here & side) for side in (treated, ~treated)]
        (count_1, mean_1, var_1), (count_0, mean_0, var_0) = sides
        units = np.where((count_1 >= 2) & (count_0 >= 2), count_1 + count_0, 0.0)
        weighted += units * (mean_1 - mean_0)
        spread += units**2 * (var_1 / np.maximum(count_1, 1) + var_0 / np.maximum(count_0, 1))
        weight += units
    is_ready = (weight > 0) & (np.cumsum(treated) >= least) & (np.cumsum(~treated) >= least)
    safe = np.maximum(weight, 1)
    estimates = weighted / safe
    variance = np.where(is_ready, spread / safe**2, 1.0)
    width = mixture_width(variance, alpha, effect)
    low = np.where(is_ready, np.maximum(estimates - width, -1.0), -1.0)
    high = np.where(is_ready, np.minimum(estimates + width, 1.0), 1.0)
    return Differences(estimates, low, high)


def evidence_of_counts(kinds: Sequence[int], shares: Sequence[float], prior: float = COUNT_PRIOR) -> "NDArray[np.float64]":
    """Returns the logarithm of the evidence, after each draw, that the draws do not have the given shares.

    It is a Bayes factor with a Dirichlet prior around the shares. With the right shares, the probability that it ever reaches
    `log(1 / alpha)` is at most alpha.

    Args:
        kinds: The kind of each draw, as an index of `shares`.
        shares: The expected shares. They sum to 1.
        prior: How strongly the prior expects the shares; for two equal shares, 2 is a uniform prior.
    """
    drawn, expected = np.asarray(kinds, dtype=np.int64), np.asarray(shares, dtype=np.float64)
    before = np.zeros(len(drawn))
    for kind in range(len(expected)):
        is_kind = drawn == kind
        before[is_kind] = np.arange(int(is_kind.sum()))
    predicted = (prior * expected[drawn] + before) / (prior + np.arange(len(drawn)))
    evidence: NDArray[np.float64] = np.cumsum(np.log(predicted) - np.log(expected[drawn]))
    return evidence


def always_valid_p(evidence: "NDArray[np.float64]") -> float:
    """Returns the p-value of the strongest evidence so far; 1 without draws."""
    return float(min(1.0, np.exp(-evidence.max()))) if len(evidence) else 1.0


def _running(
    values: "NDArray[np.float64]", which: "NDArray[np.bool_]"
) -> "tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]":
    """Returns the number, the mean and the variance of the chosen values after each value.

    The variance counts one more value of 0 and one of 1, so that it is never zero because all values so far are equal.
    """
    chosen = np.where(which, values, 0.0)
    count, total, squares = np.cumsum(which).astype(np.float64), np.cumsum(chosen), np.cumsum(chosen**2)
    variance = (squares + 1) / (count + 2) - ((total + 1) / (count + 2)) ** 2
    return count, total / np.maximum(count, 1), variance


def _first(found: "NDArray[np.bool_]") -> int | None:
    return int(found.argmax()) if found.any() else None
