"""Simulated experiments: how often one without a difference ends with a winner, and how often a difference is found."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.learning.experiment_statistics import differences

ALPHA, LEAST = 0.05, 100
FALSE_ALARMS, POWER = 0.05, 0.80
"""The bounds: at most this share of experiments without a difference has a winner, at least this share finds one."""
RUNS, QUICK_RUNS = 1_000, 100
UNITS = 4_000
"""Units of each arm."""
CORRELATION = 0.3
LONGEST = 50
"""A unit has 1 to this many decisions."""
LABELLED = 0.1
"""The share of the units that get labels."""
RIPE, LABEL_DELAY = 1.0, 1.0
"""Labels come after a random time with the second mean. Those that come after the first do not count."""


class Simulated(NamedTuple):
    """The share of simulated experiments with a property, and the bound for it."""

    name: str
    runs: int
    share: float
    bound: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Population:
    """Users whose decisions resemble each other."""

    right: float
    """The share of right decisions."""
    correlation: float = CORRELATION
    """Of two decisions of a unit."""
    longest: int = LONGEST

    def units(self, random: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Returns each unit's share of right decisions: beta-binomial."""
        sizes = random.integers(1, self.longest + 1, count)
        if self.correlation == 0:
            return random.binomial(sizes, self.right) / sizes
        spread = 1 / self.correlation - 1
        rights = random.beta(self.right * spread, (1 - self.right) * spread, count)
        return random.binomial(sizes, rights) / sizes


def with_late_labels(random: np.random.Generator, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns what is known of the units when they are ripe: without labels in time, nobody corrected them."""
    is_known = (random.random(len(values)) < LABELLED) & (random.exponential(LABEL_DELAY, len(values)) < RIPE)
    return np.where(is_known, values, 1.0)


def ends_with_winner(random: np.random.Generator, control: NDArray[np.float64], treatment: NDArray[np.float64]) -> bool:
    """Returns whether an experiment over these units, looked at after each, ever has a winner."""
    values = np.concatenate([control, treatment])
    treated = np.arange(len(values)) >= len(control)
    order = random.permutation(len(values))
    found = differences(values[order], treated[order], alpha=ALPHA, least=LEAST)
    return found.first_above is not None or found.first_below is not None


def without_difference(runs: int, seed: int, *, late: bool) -> float:
    """Returns the share of experiments with a winner although both arms are alike."""
    random, population = np.random.default_rng(seed), Population(0.88)
    winners = 0
    for _ in range(runs):
        arms = [population.units(random, UNITS) for _ in range(2)]
        control, treatment = [with_late_labels(random, values) for values in arms] if late else arms
        winners += ends_with_winner(random, control, treatment)
    return winners / runs


def with_difference(runs: int, seed: int, before: float = 0.88, after: float = 0.91) -> float:
    """Returns the share of experiments in which independent units of one decision show the difference."""
    random = np.random.default_rng(seed)
    found = 0
    for _ in range(runs):
        arms = [(random.random(UNITS) < right).astype(np.float64) for right in (before, after)]
        found += ends_with_winner(random, *arms)
    return found / runs


def simulated(*, quick: bool = False, seed: int = 1) -> list[Simulated]:
    """Runs all simulations."""
    runs = QUICK_RUNS if quick else RUNS
    about = f"1 to {LONGEST} decisions a unit, correlation {CORRELATION}"
    late, every = (without_difference(runs, seed, late=is_late) for is_late in (True, False))
    found = with_difference(runs, seed)
    return [
        Simulated(f"no difference, {about}, late labels of {LABELLED:.0%}", runs, late, "<= 5 %", late <= FALSE_ALARMS),
        Simulated(f"no difference, {about}, all labelled", runs, every, "<= 5 %", every <= FALSE_ALARMS),
        Simulated(f"88 to 91 points, {UNITS:,} independent units an arm", runs, found, ">= 80 %", found >= POWER),
    ]


def experiments(*, quick: bool = False, seed: int = 1) -> bool:
    """Prints the simulations. Returns whether all bounds hold."""
    rows = simulated(quick=quick, seed=seed)
    for row in rows:
        print(f"{row.share:7.1%} end with a winner ({row.bound}{'' if row.holds else ', MISSED'}): {row.name}, {row.runs} runs")
    return all(row.holds for row in rows)
