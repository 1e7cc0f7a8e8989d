"""The units of an experiment: each counts once, by its mean, when it is ripe (behaviour H7)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from turnwise.ports.decisions import OPERATOR
from turnwise.ports.experiments import LONGEST_RIPENING, METRICS, Experiment, Metric, Trial, TrialLabel
from turnwise.selection.arms import unit_of

RANDOM = "random"
MAX_BREAKS = 20
_FAILED = ("failed", "loop")
_LIMIT = "limit:"


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
