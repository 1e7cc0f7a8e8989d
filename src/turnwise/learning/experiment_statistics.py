"""The statistics of an experiment: its units, the paired comparison with a shadow, and sequential tests (behaviours H6, H7).

Each unit counts once, by its mean, when it is ripe. Intervals and tests hold at every look, however often one looks. The
intervals are confidence sequences by Robbins' normal mixture (H. Robbins, "Statistical methods related to the law of the
iterated logarithm", The Annals of Mathematical Statistics 41, 1970), applied to a difference of means with an estimated
variance (I. Waudby-Smith, D. Arbour, R. Sinha, E. Kennedy, A. Ramdas, "Time-uniform central limit theory and asymptotic
confidence sequences", The Annals of Statistics 52, 2024; R. Johari, P. Koomen, L. Pekelis, D. Walsh, "Always valid inference",
Operations Research 70, 2022). They are asymptotic, so they begin at a least number of units. The test of counts is exact
(M. Lindon, A. Malek, "Anytime-valid inference for multinomial count data", Advances in Neural Information Processing Systems
35, 2022).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
from pydantic import JsonValue

from turnwise.facts.experiments import LONGEST_RIPENING, METRICS, Experiment, Metric
from turnwise.facts.labels import OPERATOR
from turnwise.ports.experiments import Trial, TrialLabel
from turnwise.selection.alternatives import unit_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

RANDOM = "random"
MAX_BREAKS = 20
_FAILED = ("failed", "loop")
_LIMIT = "limit:"

ALPHA = 0.05
_EVER = datetime.max.replace(tzinfo=UTC)
_UNIFORM = 2.0

UnitOf = Callable[[Trial], tuple[str, ...]]

EXPECTED_EFFECT = 0.02
"""The standard deviation of the mixture: the intervals are the narrowest for differences of this size."""
COUNT_PRIOR = 100.0
"""How strongly the test of counts expects the right shares."""


@dataclass(frozen=True, slots=True)
class UnitResult:
    """One unit of an experiment."""

    name: tuple[str, ...]
    arm: str
    began: datetime
    """The time of its first decision."""
    ripe_at: datetime
    decisions: int
    """How many of its decisions count: those before it was ripe."""
    part: int
    """How many changes of the agents' definitions there were before its last decision."""
    means: Mapping[Metric, float]


@dataclass(frozen=True, slots=True)
class Break:
    """A change of the agents' definitions during an experiment."""

    at: datetime
    """The first decision with the new definitions."""
    tree_version: str


@dataclass(slots=True)
class _Open:
    """A unit while its decisions are read."""

    arm: str
    began: datetime
    last: datetime
    part: int
    decisions: int = 0
    answered: int = 0
    chosen: int = 0
    labelled: list[Trial] = field(default_factory=list)
    is_closed: bool = False


class UnitReader:
    """Collects the decisions of an experiment, in the order of time.

    Args:
        experiment: The experiment.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._arms = {arm.name for arm in experiment.arms}
        self._pause = timedelta(seconds=experiment.ripe_seconds)
        self._units: dict[tuple[str, ...], _Open] = {}
        self._tree = ""
        self.breaks: list[Break] = []
        """The changes of the agents' definitions, oldest first."""
        self.fingerprints: dict[str, list[str]] = {arm.name: [] for arm in experiment.arms}
        """The fingerprints of each arm's policy, in the order of their first decision."""

    def add(self, trial: Trial) -> None:
        """Counts a decision for its unit, unless the unit was ripe before it."""
        if trial.arm is None or trial.arm not in self._arms:
            return
        self._mark_break(trial)
        if trial.fingerprint not in self.fingerprints[trial.arm]:
            self.fingerprints[trial.arm].append(trial.fingerprint)
        name = unit_of(self._experiment, trial.key)
        unit = self._units.get(name)
        if unit is None:
            unit = self._units[name] = _Open(trial.arm, trial.at, trial.at, len(self.breaks))
        unit.is_closed = unit.is_closed or trial.at > self._ripe_at(unit)
        if unit.is_closed or unit.arm != trial.arm:
            return
        unit.last, unit.part = max(unit.last, trial.at), len(self.breaks)
        unit.decisions += 1
        unit.answered += not is_failure(trial.state)
        unit.chosen += trial.outcome == "chosen"
        if trial.labels:
            unit.labelled.append(trial)

    def units(self) -> list[UnitResult]:
        """Returns all units in the order in which they are ripe, also those that are not ripe yet."""
        results = [self._result(name, unit) for name, unit in self._units.items() if unit.decisions]
        return sorted(results, key=lambda unit: (unit.ripe_at, unit.name))

    def _mark_break(self, trial: Trial) -> None:
        if not trial.tree_version or trial.tree_version == self._tree:
            return
        if self._tree and len(self.breaks) < MAX_BREAKS:
            self.breaks.append(Break(trial.at, trial.tree_version))
        self._tree = trial.tree_version

    def _ripe_at(self, unit: _Open) -> datetime:
        return min(unit.last + self._pause, unit.began + LONGEST_RIPENING * self._pause)

    def _result(self, name: tuple[str, ...], unit: _Open) -> UnitResult:
        """Returns a unit's means, with the time from which it counts."""
        ripe_at = self._ripe_at(unit)
        corrected = sum(trial.outcome == "chosen" and is_corrected(trial, ripe_at) for trial in unit.labelled)
        sums: Mapping[Metric, int] = {
            "uncorrected": unit.chosen - corrected,
            "answered": unit.answered,
            "unclarified": unit.chosen,
        }
        means = {metric: sums[metric] / unit.decisions for metric in METRICS}
        return UnitResult(name, unit.arm, unit.began, ripe_at, unit.decisions, unit.part, means)


def is_failure(state: str | None) -> bool:
    """Returns whether an invocation with that state failed, reached a limit or ended in a loop."""
    return state is not None and (state in _FAILED or state.startswith(_LIMIT))


def is_corrected(trial: Trial, until: datetime) -> bool:
    """Returns whether the label that counts names another agent.

    A label of nobody names none: the chosen agent may be the default one, which messages for nobody go to.
    """
    label = counting_label(trial.labels, until)
    return label is not None and label.agent not in (None, trial.agent)


def counting_label(labels: Sequence[TrialLabel], until: datetime) -> TrialLabel | None:
    """Returns the first label that was given in time, and not because of what the policy decided.

    Operators review doubtful decisions first, and one policy may have more of them than another. Operators' labels therefore
    count only for randomly picked decisions.
    """
    return next((each for each in labels if each.at <= until and (each.source != OPERATOR or each.picked == RANDOM)), None)


def read_units(experiment: Experiment, trials: Iterable[Trial]) -> UnitReader:
    """Returns the reader after all these decisions."""
    reader = UnitReader(experiment)
    for trial in trials:
        reader.add(trial)
    return reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """The decisions of two policies on the same messages. Each unit counts once, for the policy that was right more often."""

    first: str
    """The name of the first policy, or arm."""
    second: str
    decisions: int
    """How many messages both decided."""
    differ: int
    """How many of them they decided differently."""
    labelled: int
    """How many of those have a label."""
    first_units: int
    """In how many units the first was right more often."""
    second_units: int
    p: float
    """The p-value that holds at every look, that both are right equally often."""

    @property
    def better(self) -> str | None:
        """The better policy; None while it is not sure."""
        if self.p > ALPHA or self.first_units == self.second_units:
            return None
        return self.first if self.first_units > self.second_units else self.second

    def data(self) -> dict[str, JsonValue]:
        """Returns the comparison as plain data."""
        return {
            "first": self.first,
            "second": self.second,
            "decisions": self.decisions,
            "differ": self.differ,
            "differ_share": round(self.differ / self.decisions, 6) if self.decisions else None,
            "labelled": self.labelled,
            "first_units": self.first_units,
            "second_units": self.second_units,
            "p": round(self.p, 6),
            "better": self.better,
        }


class PairReader:
    """Collects decisions with a shadow.

    Args:
        unit_of: Returns the unit of a decision.
        first: The arm that counts as the first; None = the served policy of any arm.
        only_random: Whether only labels of randomly picked decisions count. Users mostly correct what they were served. Without
        equal arms, their labels would therefore favour the shadow.
    """

    def __init__(self, unit_of: UnitOf, first: str | None = None, *, only_random: bool = True) -> None:
        self._unit_of, self._first, self._only_random = unit_of, first, only_random
        self._names = (first or "", "")
        self._decisions = self._differ = self._labelled = 0
        self._scores: defaultdict[tuple[str, ...], int] = defaultdict(int)
        self._order: list[tuple[str, ...]] = []

    def add(self, trial: Trial) -> None:
        """Counts a decision. Ignores one without a shadow, and a shadow of another kind."""
        shadow = trial.shadow
        if shadow is None or (shadow.arm is None) != (self._first is None):
            return
        self._decisions += 1
        is_swapped = self._first is not None and trial.arm != self._first
        served, other = trial.arm or "served", shadow.arm or shadow.policy
        self._names = (other, served) if is_swapped else (served if self._first is None else self._first, other)
        if (shadow.agent, shadow.outcome) == (trial.agent, trial.outcome):
            return
        self._differ += 1
        labels = [each for each in trial.labels if each.picked == RANDOM or not self._only_random]
        label = counting_label(labels, _EVER)
        if label is None:
            return
        self._labelled += 1
        served_right = trial.outcome == "chosen" and trial.agent == label.agent
        shadow_right = shadow.outcome == "chosen" and shadow.agent == label.agent
        name = self._unit_of(trial)
        if name not in self._scores:
            self._order.append(name)
        self._scores[name] += (int(served_right) - int(shadow_right)) * (-1 if is_swapped else 1)

    def result(self) -> Paired:
        """Returns the comparison of all decisions so far."""
        signs = [int(self._scores[name] < 0) for name in self._order if self._scores[name]]
        evidence = evidence_of_counts(signs, (0.5, 0.5), _UNIFORM)
        p = always_valid_p(evidence)
        return Paired(
            first=self._names[0] or "served",
            second=self._names[1] or "shadow",
            decisions=self._decisions,
            differ=self._differ,
            labelled=self._labelled,
            first_units=signs.count(0),
            second_units=signs.count(1),
            p=1.0 if math.isnan(p) else p,
        )


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
