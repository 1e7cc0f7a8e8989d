"""How good decisions are, in numbers. All shares are 0 to 1; None where there is nothing to measure."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from turnwise.learning.outcomes import Outcome

BINS = 15
EXAMPLE_CHARACTERS = 200


class Nobody(NamedTuple):
    """How well messages that nobody should take were told apart. auroc: whether `novelty` is higher for them than for others
    (0.5 = it says nothing). f1 and recall: of the decisions that nobody takes it. None without such messages, auroc also
    when there are no others."""

    auroc: float | None = None
    f1: float | None = None
    recall: float | None = None


class Latency(NamedTuple):
    """Milliseconds of one decision, encoding included."""

    p50: float | None = None
    p99: float | None = None


class ByMethod(NamedTuple):
    """The scored decisions that one method made, and the share that was right."""

    cases: int
    accuracy: float


class Confusion(NamedTuple):
    """Messages that went to `chosen` and belong to `expected`; None = nobody. `example` is the first of them, cut
    after 200 characters."""

    expected: str | None
    chosen: str | None
    count: int  # type: ignore[assignment]  # hides the method of tuples, which nobody asks here
    example: str


class Bin(NamedTuple):
    """Decisions whose confidence lies between two bounds: how many, their mean confidence, and the share that was right."""

    low: float
    high: float
    cases: int
    confidence: float
    accuracy: float


class Measures(NamedTuple):
    """What an evaluation measures. `cases` are the messages of which is known who should take them.

    accuracy: over all cases, those included that nobody should take. in_scope_accuracy: of the best-scored agent, over the
    cases that have one; top3_accuracy: the right one is among the three best. switch_accuracy and stay_accuracy: over the
    turns of dialogues whose right agent differs from, or is, that of the scored turn before. switch_rate: how often two
    choices in a row differ. bounce_rate: how often three choices in a row are A, B, A. ece: the expected calibration error
    of the best's confidence, in scope, 15 bins of equal width (Guo et al., 2017). confusions: the most frequent first.
    """

    cases: int
    accuracy: float | None
    in_scope_accuracy: float | None
    top3_accuracy: float | None
    switch_accuracy: float | None
    stay_accuracy: float | None
    switch_rate: float | None
    bounce_rate: float | None
    nobody: Nobody
    ece: float | None
    latency_ms: Latency
    by_method: dict[str, ByMethod]
    confusions: tuple[Confusion, ...]


def measure(outcomes: Sequence[Outcome]) -> Measures:
    """The measures of these decisions, which stand in the order they were made, dialogue after dialogue."""
    scored = [outcome for outcome in outcomes if outcome.scored]
    in_scope = [outcome for outcome in scored if outcome.expected is not None]
    switches, stays = switches_and_stays(scored)
    switch_rate, bounce_rate = stability(outcomes)
    times = sorted(outcome.ms for outcome in outcomes)
    return Measures(
        cases=len(scored),
        accuracy=share(outcome.right for outcome in scored),
        in_scope_accuracy=share(outcome.best == outcome.expected for outcome in in_scope),
        top3_accuracy=share(outcome.expected in [agent for agent, _ in outcome.ranked[:3]] for outcome in in_scope),
        switch_accuracy=share(outcome.right for outcome in switches),
        stay_accuracy=share(outcome.right for outcome in stays),
        switch_rate=switch_rate,
        bounce_rate=bounce_rate,
        nobody=nobody(scored),
        ece=calibration_error(reliability(in_scope)),
        latency_ms=Latency(percentile(times, 0.5), percentile(times, 0.99)),
        by_method=by_method(scored),
        confusions=confusions(scored),
    )


def share(truths: Iterable[bool]) -> float | None:
    """The share that is true; None of nothing."""
    every = list(truths)
    return sum(every) / len(every) if every else None


def percentile(ordered: Sequence[float], at: float) -> float | None:
    """The value below which the share `at` of these ascending numbers lies, interpolated; None of nothing."""
    if not ordered:
        return None
    place = at * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def switches_and_stays(scored: Iterable[Outcome]) -> tuple[list[Outcome], list[Outcome]]:
    """The turns where the right agent is another than in the scored turn before, and those where it is the same."""
    switches: list[Outcome] = []
    stays: list[Outcome] = []
    for turns in _dialogues(scored):
        for before, turn in pairwise(turns):
            (stays if turn.expected == before.expected else switches).append(turn)
    return switches, stays


def stability(outcomes: Iterable[Outcome]) -> tuple[float | None, float | None]:
    """The share of choices that differ from the one before, and the share of threes that go A, B, A."""
    changes: list[bool] = []
    bounces: list[bool] = []
    for turns in _dialogues(outcomes):
        agents = [turn.agent for turn in turns]
        changes += [one != other for one, other in pairwise(agents)]
        bounces += [a == c != b for a, b, c in zip(agents, agents[1:], agents[2:], strict=False)]
    return share(changes), share(bounces)


def _dialogues(outcomes: Iterable[Outcome]) -> list[list[Outcome]]:
    found = [list(turns) for _, turns in groupby(outcomes, key=lambda outcome: outcome.dialogue)]
    return [turns for turns in found if turns[0].dialogue is not None]


def nobody(scored: Sequence[Outcome]) -> Nobody:
    """How well the messages that nobody should take were recognised."""
    of_nobody = [outcome for outcome in scored if outcome.expected is None]
    others = [outcome for outcome in scored if outcome.expected is not None]
    if not of_nobody:
        return Nobody()
    found = sum(outcome.chosen is None for outcome in of_nobody)
    false = sum(outcome.chosen is None for outcome in others)
    return Nobody(
        auroc=auroc([outcome.novelty for outcome in of_nobody], [outcome.novelty for outcome in others]),
        f1=2 * found / (len(of_nobody) + found + false),
        recall=found / len(of_nobody),
    )


def auroc(higher: Sequence[float], lower: Sequence[float]) -> float | None:
    """The chance that one of `higher` is above one of `lower`, ties counting half; None when either is empty."""
    if not higher or not lower:
        return None
    values = sorted([(value, True) for value in higher] + [(value, False) for value in lower])
    wins = below = 0.0
    for _, tied in groupby(values, key=lambda pair: pair[0]):
        kinds = Counter(kind for _, kind in tied)
        wins += kinds[True] * (below + kinds[False] / 2)
        below += kinds[False]
    return wins / (len(higher) * len(lower))


def reliability(in_scope: Iterable[Outcome], bins: int = BINS) -> list[Bin]:
    """The bins of the best's confidence that hold anything, from low to high."""
    kept: dict[int, list[Outcome]] = {}
    for outcome in in_scope:
        kept.setdefault(min(int(outcome.confidence * bins), bins - 1), []).append(outcome)
    return [
        Bin(
            low=number / bins,
            high=(number + 1) / bins,
            cases=len(those),
            confidence=math.fsum(outcome.confidence for outcome in those) / len(those),
            accuracy=sum(outcome.best == outcome.expected for outcome in those) / len(those),
        )
        for number, those in sorted(kept.items())
    ]


def calibration_error(bins: Sequence[Bin]) -> float | None:
    """How far confidence and accuracy are apart, over all bins weighted by their size."""
    cases = sum(each.cases for each in bins)
    return math.fsum(each.cases * abs(each.accuracy - each.confidence) for each in bins) / cases if cases else None


def by_method(scored: Iterable[Outcome]) -> dict[str, ByMethod]:
    """What each method decided, the most used first."""
    right: Counter[str] = Counter()
    cases: Counter[str] = Counter()
    for outcome in scored:
        cases[outcome.method] += 1
        right[outcome.method] += outcome.right
    ordered = sorted(cases, key=lambda method: (-cases[method], method))
    return {method: ByMethod(cases[method], right[method] / cases[method]) for method in ordered}


def confusions(scored: Iterable[Outcome]) -> tuple[Confusion, ...]:
    """Who was mistaken for whom, the most frequent first; equal ones in the order of their first message."""
    found: dict[tuple[str | None, str | None], list[str]] = {}
    for outcome in scored:
        if not outcome.right:
            found.setdefault((outcome.expected, outcome.chosen), []).append(outcome.text)
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    return tuple(Confusion(*pair, len(texts), _cut(texts[0])) for pair, texts in ordered)


def _cut(text: str) -> str:
    return text if len(text) <= EXAMPLE_CHARACTERS else text[: EXAMPLE_CHARACTERS - 1] + "…"


def coverage(scored: Iterable[Outcome]) -> list[tuple[float, float]]:
    """Of the best's confidence as a bar: which share of the cases is above it, and which share of those is right.

    From the highest bar to the lowest, one point for each confidence that occurs.
    """
    ordered = sorted(scored, key=lambda outcome: -outcome.confidence)
    points: list[tuple[float, float]] = []
    done = right = 0
    for _, tied in groupby(ordered, key=lambda outcome: outcome.confidence):
        those = list(tied)
        done += len(those)
        right += sum(outcome.best == outcome.expected for outcome in those)
        points.append((done / len(ordered), right / done))
    return points
