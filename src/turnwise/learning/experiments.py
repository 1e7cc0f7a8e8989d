"""Analyses experiments: what each arm came to, and what is sure at every look (behaviour H7)."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import numpy as np
from pydantic import JsonValue

from turnwise.learning.paired import Paired, PairReader
from turnwise.learning.sequential import Differences, always_valid_p, differences, evidence_of_counts
from turnwise.learning.units import Break, UnitReader, UnitResult
from turnwise.ports.experiments import METRICS, Experiment, ExperimentRecord, Experiments, Metric, Trial
from turnwise.selection.arms import unit_of

RATIO_ALPHA = 0.001
"""Below this p-value, the arms surely do not have their shares of the units: the experiment is broken."""
POINTS = 200
"""How many points of an experiment over time are returned at most."""
_PAGE = 1_000


class Point(NamedTuple):
    """An interval at one look."""

    units: int
    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """An arm beside the control, by one metric. Values are differences of means, -1 to 1."""

    arm: str
    metric: Metric
    alpha: float
    """The probability that the true difference is ever outside of the interval."""
    estimate: float | None
    """None while an arm has too few ripe units."""
    low: float
    high: float
    over_time: tuple[Point, ...] = ()
    """The intervals of the primary metric, at most 200, oldest first."""
    better_after: int | None = None
    """After how many ripe units of both arms it was surely better; None = it was not."""
    worse_after: int | None = None
    """After how many it was surely worse."""
    harmful_after: int | None = None
    """After how many it was surely worse by more than the bound."""

    def data(self) -> dict[str, JsonValue]:
        """Returns the comparison as plain data."""
        estimate = None if self.estimate is None else round(self.estimate, 6)
        return {
            "arm": self.arm,
            "metric": self.metric,
            "alpha": round(self.alpha, 6),
            "estimate": estimate,
            "low": round(self.low, 6),
            "high": round(self.high, 6),
            "better_after": self.better_after,
            "worse_after": self.worse_after,
            "harmful_after": self.harmful_after,
            "over_time": [[point.units, *(round(value, 6) for value in point[1:])] for point in self.over_time],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult:
    """One arm."""

    name: str
    policy: str | None
    weight: float
    units: int
    """How many units have the arm."""
    ripe: int
    decisions: int
    """The decisions of the ripe units that count."""
    means: Mapping[Metric, float | None]
    """The mean of the ripe units' means; None without one."""
    fingerprints: tuple[str, ...]
    """The policies that decided for it. Several mean that the policy, or what is fitted to the agents, changed."""

    def data(self) -> dict[str, JsonValue]:
        """Returns the arm as plain data."""
        means: dict[str, JsonValue] = {name: None if mean is None else round(mean, 6) for name, mean in self.means.items()}
        return {
            "arm": self.name,
            "policy": self.policy,
            "weight": self.weight,
            "units": self.units,
            "ripe": self.ripe,
            "decisions": self.decisions,
            "means": means,
            "fingerprints": [*self.fingerprints],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentResult:
    """The analysis of an experiment."""

    record: ExperimentRecord
    paired: Paired | None
    """Both arms' decisions on the same messages. It needs a fraction of the traffic, so it comes first."""
    arms: tuple[ArmResult, ...]
    comparisons: tuple[Comparison, ...]
    """The primary metric's first."""
    ratio_p: float
    """The p-value, valid at every look, that the units divide among the arms as the weights say."""
    breaks: tuple[Break, ...]

    @property
    def is_broken(self) -> bool:
        """True if the arms surely do not have their shares of the units. Then no comparison counts."""
        return self.ratio_p < RATIO_ALPHA

    @property
    def primary(self) -> Sequence[Comparison]:
        """The comparisons by the primary metric."""
        return [each for each in self.comparisons if each.metric == self.record.experiment.metric]

    @property
    def winner(self) -> str | None:
        """The arm that is surely the better one by the primary metric; None while it is not sure.

        With several arms that are better than the control, it is the one with the highest estimate.
        """
        if self.is_broken:
            return None
        better = [each for each in self.primary if each.better_after is not None]
        if better:
            return max(better, key=lambda each: each.estimate or 0.0).arm
        is_best = all(each.worse_after is not None for each in self.primary)
        return self.record.experiment.control.name if is_best else None

    @property
    def harmful(self) -> Sequence[Comparison]:
        """The arms that are surely worse than the control by more than the bound."""
        return [each for each in self.primary if each.harmful_after is not None]

    def data(self) -> dict[str, JsonValue]:
        """Returns the analysis as plain data."""
        record = self.record
        return {
            "name": record.name,
            "state": record.state,
            "unit": record.experiment.unit,
            "metric": record.experiment.metric,
            "started_at": record.started_at.isoformat(),
            "ended_at": record.ended_at.isoformat() if record.ended_at is not None else None,
            "promoted": record.promoted,
            "reason": record.reason,
            "paired": self.paired.data() if self.paired is not None else None,
            "arms": [arm.data() for arm in self.arms],
            "comparisons": [each.data() for each in self.comparisons],
            "winner": self.winner,
            "harmful": [each.arm for each in self.harmful],
            "ratio_p": round(self.ratio_p, 6),
            "broken": self.is_broken,
            "breaks": [{"at": each.at.isoformat(), "tree_version": each.tree_version} for each in self.breaks],
        }


async def read_trials(store: Experiments, app: str, experiment: str | None) -> AsyncIterator[Trial]:
    """Yields the decisions of an experiment, or with None all with a shadow, oldest first. Raises StoreError."""
    after = None
    while True:
        page = await store.trials(app, experiment, after=after, limit=_PAGE)
        for trial in page.items:
            yield trial
        after = page.next
        if after is None:
            return


async def read_result(store: Experiments, app: str, record: ExperimentRecord, now: datetime) -> ExperimentResult:
    """Reads and analyses the decisions of an experiment. The memory grows with its units. Raises StoreError."""
    experiment = record.experiment
    units = UnitReader(experiment)
    is_even = len({arm.weight for arm in experiment.arms}) == 1
    pairs = PairReader(lambda trial: unit_of(experiment, trial.key), experiment.control.name, only_random=not is_even)
    async for trial in read_trials(store, app, record.name):
        units.add(trial)
        pairs.add(trial)
    return analysed(record, units, pairs.result(), now)


async def read_shadow(store: Experiments, app: str) -> Paired:
    """Compares the served policy with its shadow, outside of experiments. Each session counts once. Raises StoreError."""
    pairs = PairReader(lambda trial: (trial.key.user, trial.key.id))
    async for trial in read_trials(store, app, None):
        pairs.add(trial)
    return pairs.result()


def analysed(record: ExperimentRecord, reader: UnitReader, paired: Paired | None, now: datetime) -> ExperimentResult:
    """Returns the analysis of the units that are ripe at that time. The same units and time give the same analysis."""
    experiment, units = record.experiment, reader.units()
    ripe = [unit for unit in units if unit.ripe_at <= now]
    return ExperimentResult(
        record=record,
        paired=paired if paired is not None and paired.decisions else None,
        arms=tuple(_arm_result(experiment, name, units, ripe, reader) for name in reader.fingerprints),
        comparisons=tuple(_comparisons(experiment, ripe)),
        ratio_p=_ratio_p(experiment, units),
        breaks=tuple(reader.breaks),
    )


def _arm_result(
    experiment: Experiment, name: str, units: Sequence[UnitResult], ripe: Sequence[UnitResult], reader: UnitReader
) -> ArmResult:
    """Returns the counts and means of one arm."""
    arm = experiment.arm(name)
    assert arm is not None
    own = [unit for unit in ripe if unit.arm == name]
    return ArmResult(
        name=name,
        policy=arm.policy,
        weight=arm.weight,
        units=sum(unit.arm == name for unit in units),
        ripe=len(own),
        decisions=sum(unit.decisions for unit in own),
        means={metric: sum(unit.means[metric] for unit in own) / len(own) if own else None for metric in METRICS},
        fingerprints=tuple(reader.fingerprints[name]),
    )


def _comparisons(experiment: Experiment, ripe: Sequence[UnitResult]) -> list[Comparison]:
    """The arms share the alpha of the primary metric; the other metrics share another one."""
    others = [metric for metric in METRICS if metric != experiment.metric]
    arms = [arm.name for arm in experiment.arms[1:]]
    found = [_compared(experiment, name, experiment.metric, experiment.alpha / len(arms), ripe) for name in arms]
    for metric in others:
        alpha = experiment.alpha / len(arms) / len(others)
        found += [_compared(experiment, name, metric, alpha, ripe) for name in arms]
    return found


def _compared(experiment: Experiment, name: str, metric: Metric, alpha: float, ripe: Sequence[UnitResult]) -> Comparison:
    """Returns the difference of a metric between an arm and the control, with its interval at every look."""
    both = [unit for unit in ripe if unit.arm in (name, experiment.control.name)]
    treated = np.array([unit.arm == name for unit in both], dtype=np.bool_)
    found = differences(
        np.array([unit.means[metric] for unit in both], dtype=np.float64),
        treated,
        np.array([unit.part for unit in both], dtype=np.int64),
        alpha=alpha,
        least=experiment.least_units,
    )
    is_ready = min(int(treated.sum()), int((~treated).sum())) >= experiment.least_units
    return Comparison(
        arm=name,
        metric=metric,
        alpha=alpha,
        estimate=float(found.estimates[-1]) if is_ready else None,
        low=float(found.low[-1]) if is_ready else -1.0,
        high=float(found.high[-1]) if is_ready else 1.0,
        over_time=_over_time(found) if metric == experiment.metric else (),
        better_after=_after(found.first_above),
        worse_after=_after(found.first_below),
        harmful_after=_after(found.first_worse(experiment.worse_by)),
    )


def _after(look: int | None) -> int | None:
    return None if look is None else look + 1


def _over_time(found: Differences) -> tuple[Point, ...]:
    size = len(found.estimates)
    looks = sorted({round(place) for place in np.linspace(0, size - 1, min(POINTS, size))}) if size else []
    rows = ((look + 1, found.estimates[look], found.low[look], found.high[look]) for look in looks)
    return tuple(Point(units, float(estimate), float(low), float(high)) for units, estimate, low, high in rows)


def _ratio_p(experiment: Experiment, units: Sequence[UnitResult]) -> float:
    names = [arm.name for arm in experiment.arms]
    total = sum(arm.weight for arm in experiment.arms)
    order = sorted(units, key=lambda unit: (unit.began, unit.name))
    kinds = [names.index(unit.arm) for unit in order]
    return always_valid_p(evidence_of_counts(kinds, [arm.weight / total for arm in experiment.arms]))
