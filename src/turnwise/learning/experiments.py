"""Experiments: what each arm came to, what is sure at every look, and their start and end (behaviours H4, H7).

An experiment ends by a request, or by itself when an arm is worse.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
from pydantic import JsonValue

from turnwise.facts.errors import NothingHere, StaleWriter, StoreError
from turnwise.facts.experiments import METRICS, Experiment, ExperimentRecord, ExperimentState, Metric, serving_experiment
from turnwise.learning.experiment_statistics import (
    Break,
    Differences,
    Paired,
    PairReader,
    UnitReader,
    UnitResult,
    always_valid_p,
    differences,
    evidence_of_counts,
)
from turnwise.ports.audit import Act
from turnwise.ports.experiments import Experiments, Trial
from turnwise.selection.alternatives import unit_of

RATIO_ALPHA = 0.001
"""Below this p-value, the arms surely do not have their shares of the units: the experiment is broken."""
POINTS = 200
"""How many points of an experiment over time are returned at most."""
_PAGE = 1_000

LOOK_SECONDS = 60.0
"""How often all processes together check whether an arm is worse."""
BY_ITSELF = "turnwise"
"""The actor of an experiment that ends by itself."""
_TRIES = 5
_MAY_BECOME: Mapping[ExperimentState, Sequence[ExperimentState]] = {
    "running": ("stopped", "promoted", "rolled_back"),
    "stopped": ("promoted", "rolled_back"),
    "promoted": ("promoted", "rolled_back"),
    # Sessions of all arms went back to the control, and must not change once more.
    "rolled_back": (),
}

log = logging.getLogger("turnwise.learning")


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


async def find_experiment(store: Experiments, app: str, name: str) -> ExperimentRecord:
    """Returns the experiment of that name. Raises NothingHere, StoreError."""
    known = await store.all(app)
    for record in known:
        if record.name == name:
            return record
    names = ", ".join(record.name for record in known) or "none; one starts with the first message"
    raise NothingHere(f"App {app!r} has no experiment {name!r}.", fix=f"Experiments: {names}.")


async def start(store: Experiments, app: str, experiment: Experiment, now: datetime, *, actor: str) -> ExperimentRecord:
    """Starts an experiment. Sessions that begin from now on are in it, in all processes within a second.

    Raises:
        StaleWriter: The app has an experiment of that name, or one that is running.
        StoreError: The store cannot be used.
    """
    await _check_free(store, app, experiment.name)
    begun = ExperimentRecord(experiment=experiment, started_at=now, started_by=actor)
    act = Act(actor, "experiment.started", details={"experiment": experiment.name})
    stored = await store.replace(app, begun, act=act)
    if stored is None:
        raise _taken(experiment.name)
    # Others may have been started at the same time. One stays: that of the configuration, or the first.
    running = [each for each in await store.all(app) if each.state == "running"]
    stays = next((each for each in running if not each.started_by), None) or serving_experiment(running)
    for each in running:
        if each.started_by and stays is not None and each.name != stays.name:
            await stop(store, app, each.name, now, actor=actor)
    if stays is not None and stays.name != experiment.name:
        raise _running(stays.name)
    return stored


async def _check_free(store: Experiments, app: str, name: str) -> None:
    for record in await store.all(app):
        if record.name == name:
            raise _taken(name)
        if record.state == "running":
            raise _running(record.name)


def _taken(name: str) -> StaleWriter:
    return StaleWriter(f"There is an experiment {name!r} already.", fix="Choose another name.")


def _running(name: str) -> StaleWriter:
    return StaleWriter(f"The experiment {name!r} is running.", fix="Stop it, promote an arm, or roll it back first.")


async def promote(store: Experiments, app: str, name: str, arm: str, now: datetime, *, actor: str) -> ExperimentRecord:
    """Lets an arm's policy decide all sessions that begin from now on. Earlier sessions keep their arm.

    Raises:
        NothingHere: There is no such experiment, or no such arm.
        StaleWriter: The experiment was rolled back, or others kept changing it.
        StoreError: The store cannot be used.
    """
    record = await find_experiment(store, app, name)
    if record.experiment.arm(arm) is None:
        names = ", ".join(each.name for each in record.experiment.arms)
        raise NothingHere(f"The experiment {name!r} has no arm {arm!r}.", fix=f"Arms: {names}.")
    return await _end(store, app, name, "promoted", now, actor=actor, promoted=arm)


async def roll_back(
    store: Experiments, app: str, name: str, now: datetime, *, actor: str, reason: str = ""
) -> ExperimentRecord:
    """Lets the control decide everything at once, in sessions of all arms. Raises as `promote`."""
    return await _end(store, app, name, "rolled_back", now, actor=actor, reason=reason)


async def stop(store: Experiments, app: str, name: str, now: datetime, *, actor: str) -> ExperimentRecord:
    """Takes no more sessions into the experiment. Earlier sessions keep their arm, so that they can be analysed. Raises as
    `promote`.
    """
    return await _end(store, app, name, "stopped", now, actor=actor)


async def _end(
    store: Experiments,
    app: str,
    name: str,
    state: ExperimentState,
    now: datetime,
    *,
    actor: str,
    reason: str = "",
    promoted: str | None = None,
) -> ExperimentRecord:
    """Ends an experiment with that state, and again when another writer was faster. Raises StaleWriter."""
    for _ in range(_TRIES):
        record = await find_experiment(store, app, name)
        if (record.state, record.promoted) == (state, promoted):
            return record
        if state not in _MAY_BECOME[record.state]:
            already = record.state.replace("_", " ")
            raise StaleWriter(f"The experiment {name!r} is {already} already.", fix="Start another one under a new name.")
        ended = record.ended(state, now, actor=actor, reason=reason, promoted=promoted)
        details = {"experiment": name, "arm": promoted, "reason": reason}
        stored = await store.replace(app, ended, act=Act(actor, f"experiment.{state}", details=details))
        if stored is not None:
            return stored
    raise StaleWriter(f"The experiment {name!r} kept being changed by others.", fix="Try again.")


async def end_if_worse(store: Experiments, app: str, name: str | None, now: datetime) -> ExperimentRecord | None:
    """Rolls a running experiment back when an arm is surely worse than the control by more than the bound.

    Args:
        store: The store of experiments.
        app: The app.
        name: The experiment; None = the one that was started over the API.
        now: The time.

    Returns:
        The ended experiment; None if it goes on, or another process looked within the last minute.

    Raises:
        StoreError: The store cannot be used.
    """
    records = await store.all(app)
    record = serving_experiment(records) if name is None else next((each for each in records if each.name == name), None)
    if record is None or record.state != "running":
        return None
    if record.looked_at is not None and now - record.looked_at < timedelta(seconds=LOOK_SECONDS):
        return None
    claimed = await store.replace(app, record.replace(looked_at=now))
    if claimed is None:
        return None
    result = await read_result(store, app, claimed, now)
    if result.is_broken or not result.harmful:
        return None
    worst, control = result.harmful[0], claimed.experiment.control.name
    reason = (
        f"Arm {worst.arm!r} was surely worse than {control!r} by more than {claimed.experiment.worse_by:g} "
        f"({worst.metric}), after {worst.harmful_after} units."
    )
    return await roll_back(store, app, record.name, now, actor=BY_ITSELF, reason=reason)


async def watch_experiment(
    store: Experiments, app: str, name: str | None, now: Callable[[], datetime], *, seconds: float = LOOK_SECONDS
) -> None:
    """Calls `end_if_worse` about once a minute, until it is cancelled. Problems of the store are logged."""
    while True:
        began = now()
        try:
            ended = await end_if_worse(store, app, name, began)
            if ended is not None:
                log.warning("The experiment %r ended by itself: %s", ended.name, ended.reason)
        except StoreError as problem:
            log.warning("The app's experiment cannot be analysed: %s", problem)
        except Exception:
            log.exception("The app's experiment cannot be analysed.")
        # A long analysis is repeated less often, so that it takes at most a twentieth of the time.
        await asyncio.sleep(max(seconds, 20 * (now() - began).total_seconds()))
