"""The paired comparison of two policies that decided the same messages: one as the shadow of the other (behaviours H6, H7)."""

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import JsonValue

from turnwise.learning.sequential import always_valid_p, evidence_of_counts
from turnwise.learning.units import RANDOM, counting_label
from turnwise.ports.experiments import Trial

ALPHA = 0.05
_EVER = datetime.max.replace(tzinfo=UTC)
_UNIFORM = 2.0

UnitOf = Callable[[Trial], tuple[str, ...]]


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
