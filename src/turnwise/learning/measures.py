"""Outcomes, which are decisions compared with the expected agent, and their quality measures.

All shares are 0 to 1; None where there is nothing to measure.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from turnwise.facts.selections import Candidate, Selection
from turnwise.selection.policy import SEVERAL

BINS = 15
EXAMPLE_CHARACTERS = 200
MAX_GROUPS = 50
"""How many groups of cases a key has in the figures."""


class Outcome(NamedTuple):
    """A decision on a case."""

    text: str
    expected: str | None
    """The right agent; None = out of scope."""
    agent: str
    """The agent that got the message."""
    chosen: str | None
    """The same; None for the default agent or a clarifying question, which count as out of scope."""
    ranked: tuple[tuple[str, float], ...] = ()
    """Agents with scores, 0 to 1, best first, without the default agent. The chosen one leads with the decision's confidence.
    """
    novelty: float = 0.0
    """Probability, 0 to 1, that the message is out of scope."""
    method: str = ""
    ms: float = 0.0
    """Duration of the decision in milliseconds."""
    dialogue: str | None = None
    """The dialogue's id; None for a single message."""
    turn: int = 0
    """Index in the dialogue, from 0."""
    scored: bool = True
    """False for a turn with an unknown right agent."""
    reason: str = ""
    also: tuple[str, ...] = ()
    """Other agents that the decision names for the message, in order."""
    also_expected: tuple[str, ...] | None = None
    """Other agents that the message has requests for; None = not labelled."""
    groups: Mapping[str, str] = {}
    """The case's group by each key that the figures are grouped by."""

    @property
    def right(self) -> bool:
        """Returns whether the message went to the right agent."""
        return self.chosen == self.expected

    @property
    def best(self) -> str | None:
        """Returns the best-scored agent; None when none has a score."""
        return self.ranked[0][0] if self.ranked else None

    @property
    def confidence(self) -> float:
        """Returns the confidence of the best-scored agent."""
        return self.ranked[0][1] if self.ranked else 0.0


class OutOfScope(NamedTuple):
    """How well out-of-scope messages are recognized. All None without such messages."""

    auroc: float | None = None
    """How well `novelty` separates out-of-scope messages from others (0.5 = not at all); None without others."""
    f1: float | None = None
    """F1 of the decisions that a message is out of scope."""
    recall: float | None = None
    """Recall of those decisions."""


class Also(NamedTuple):
    """How well further requests in a message are found; None where there is nothing to measure."""

    recall: float | None
    precision: float | None


class Latency(NamedTuple):
    """Duration of one decision in milliseconds, encoding included."""

    p50: float | None = None
    p99: float | None = None


class ByMethod(NamedTuple):
    """The scored decisions of one method, and the share that was right."""

    cases: int
    accuracy: float


class ByGroup(NamedTuple):
    """The scored decisions of one group of cases, the share that was right, and that share right after a wrong decision."""

    cases: int
    accuracy: float
    after_error: float | None


class Confusion(NamedTuple):
    """Messages for `expected` that went to `chosen`; None = out of scope. `example` is the first, cut to 200 characters."""

    expected: str | None
    chosen: str | None
    count: int  # type: ignore[assignment]  # hides a tuple method that is not used here
    example: str


class Bin(NamedTuple):
    """Decisions with a confidence between two bounds: their number, mean confidence, and share that was right."""

    low: float
    high: float
    cases: int
    confidence: float
    accuracy: float


class Measures(NamedTuple):
    """All measures of an evaluation."""

    cases: int
    """Messages with a known expected agent, including out-of-scope messages."""
    accuracy: float | None
    """Over all cases."""
    in_scope_accuracy: float | None
    """Accuracy of the best-scored agent, over in-scope cases."""
    top3_accuracy: float | None
    """Share of in-scope cases with the right agent among the best three."""
    switch_accuracy: float | None
    """Over dialogue turns that change the expected agent from the scored turn before."""
    stay_accuracy: float | None
    """Over dialogue turns that keep the expected agent of the scored turn before."""
    after_error: float | None
    """Over dialogue turns that follow a scored turn which went to a wrong agent."""
    also_recall: float | None
    """The share of the further agents in labelled messages that decisions named."""
    also_precision: float | None
    """The share of further agents named by decisions that was right."""
    switch_rate: float | None
    """Share of consecutive choices that differ."""
    bounce_rate: float | None
    """Share of three consecutive choices that are A, B, A."""
    nobody: OutOfScope
    ece: float | None
    """Expected calibration error of the best agent's confidence, in scope, with 15 equal-width bins (Guo et al., 2017)."""
    latency_ms: Latency
    by_method: dict[str, ByMethod]
    by: dict[str, dict[str, ByGroup]]
    """Groups of cases by key, the largest first."""
    confusions: tuple[Confusion, ...]
    """Most frequent first."""


def measure(outcomes: Sequence[Outcome]) -> Measures:
    """Returns the measures of these decisions, which must be in order, dialogue by dialogue."""
    scored = [outcome for outcome in outcomes if outcome.scored]
    in_scope = [outcome for outcome in scored if outcome.expected is not None]
    switches, stays = switches_and_stays(scored)
    switch_rate, bounce_rate = stability(outcomes)
    also = also_measures(scored)
    times = sorted(outcome.ms for outcome in outcomes)
    return Measures(
        cases=len(scored),
        accuracy=share(outcome.right for outcome in scored),
        in_scope_accuracy=share(outcome.best == outcome.expected for outcome in in_scope),
        top3_accuracy=share(outcome.expected in [agent for agent, _ in outcome.ranked[:3]] for outcome in in_scope),
        switch_accuracy=share(outcome.right for outcome in switches),
        stay_accuracy=share(outcome.right for outcome in stays),
        after_error=share(outcome.right for outcome in after_errors(scored)),
        also_recall=also.recall,
        also_precision=also.precision,
        switch_rate=switch_rate,
        bounce_rate=bounce_rate,
        nobody=out_of_scope_measures(scored),
        ece=calibration_error(reliability(in_scope)),
        latency_ms=Latency(percentile(times, 0.5), percentile(times, 0.99)),
        by_method=by_method(scored),
        by=by_groups(scored),
        confusions=confusions(scored),
    )


def chosen_of(selection: Selection, default: str) -> str | None:
    """Returns the chosen agent; None for the default agent or a clarifying question.

    For a message with requests for several agents, this is the first of them.
    """
    agent = selection.verdicts[-1].agent if selection.method == SEVERAL and selection.verdicts else selection.agent
    return None if selection.outcome == "clarify" or agent == default else agent


def ranking_of(selection: Selection, default: str) -> tuple[tuple[str, float], ...]:
    """Returns all agents with a score, best first.

    The chosen agent leads. Then come the candidates of the deciding verdict, then those of earlier verdicts, the latest first:
    a stage that left the decision to the next one knew less.
    """
    found: dict[str, float] = {}
    chosen = chosen_of(selection, default)
    if chosen is not None:
        found[chosen] = selection.confidence
    for verdict in reversed(selection.verdicts):
        for candidate in _best_first(verdict.candidates):
            if candidate.agent != default:
                found.setdefault(candidate.agent, candidate.score)
    return tuple(found.items())


def novelty_of(selection: Selection, default: str) -> float:
    """Returns the probability that the message is out of scope.

    This is the novelty of the last verdict with one, plus the small-talk confidence when small talk went to the default agent.
    Without a novelty, it is 1 minus the best score.
    """
    said = [verdict.novelty for verdict in selection.verdicts if verdict.novelty is not None]
    if said:
        chats = selection.method == "smalltalk" and selection.agent == default
        return min(said[-1] + selection.confidence, 1.0) if chats else said[-1]
    ranked = ranking_of(selection, default)
    return 1.0 - ranked[0][1] if ranked else 1.0


def share(truths: Iterable[bool]) -> float | None:
    """Returns the share of true values; None when empty."""
    every = list(truths)
    return sum(every) / len(every) if every else None


def percentile(ordered: Sequence[float], at: float) -> float | None:
    """Returns the interpolated quantile `at` of ascending numbers; None when empty."""
    if not ordered:
        return None
    place = at * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def switches_and_stays(scored: Iterable[Outcome]) -> tuple[list[Outcome], list[Outcome]]:
    """Splits dialogue turns into those that change the expected agent from the scored turn before, and the others."""
    switches: list[Outcome] = []
    stays: list[Outcome] = []
    for turns in _dialogues(scored):
        for before, turn in pairwise(turns):
            (stays if turn.expected == before.expected else switches).append(turn)
    return switches, stays


def after_errors(scored: Iterable[Outcome]) -> list[Outcome]:
    """Returns the dialogue turns after a scored turn that went to a wrong agent."""
    return [turn for turns in _dialogues(scored) for before, turn in pairwise(turns) if not before.right]


def also_measures(scored: Iterable[Outcome]) -> Also:
    """Returns how well further requests are found. Which of the agents is the first does not matter."""
    wanted = found = named = right = 0
    for outcome in scored:
        if outcome.also_expected is not None:
            expected = {outcome.expected, *outcome.also_expected} - {None}
            wanted += max(len(expected) - 1, 0)
            found += max(len(expected & {outcome.chosen, *outcome.also}) - 1, 0)
            named += len(outcome.also)
            right += len(expected.intersection(outcome.also))
    return Also(found / wanted if wanted else None, right / named if named else None)


def stability(outcomes: Iterable[Outcome]) -> tuple[float | None, float | None]:
    """Returns the switch rate and the bounce rate."""
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


def out_of_scope_measures(scored: Sequence[Outcome]) -> OutOfScope:
    """Returns how well out-of-scope messages were recognized."""
    out_of_scope = [outcome for outcome in scored if outcome.expected is None]
    others = [outcome for outcome in scored if outcome.expected is not None]
    if not out_of_scope:
        return OutOfScope()
    found = sum(outcome.chosen is None for outcome in out_of_scope)
    false = sum(outcome.chosen is None for outcome in others)
    return OutOfScope(
        auroc=auroc([outcome.novelty for outcome in out_of_scope], [outcome.novelty for outcome in others]),
        f1=2 * found / (len(out_of_scope) + found + false),
        recall=found / len(out_of_scope),
    )


def auroc(higher: Sequence[float], lower: Sequence[float]) -> float | None:
    """Returns the probability that a value of `higher` exceeds one of `lower`; ties count half. None when either is empty."""
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
    """Returns the non-empty bins of the best agent's confidence, ascending."""
    by_bin: dict[int, list[Outcome]] = {}
    for outcome in in_scope:
        by_bin.setdefault(min(int(outcome.confidence * bins), bins - 1), []).append(outcome)
    return [
        Bin(
            low=number / bins,
            high=(number + 1) / bins,
            cases=len(those),
            confidence=math.fsum(outcome.confidence for outcome in those) / len(those),
            accuracy=sum(outcome.best == outcome.expected for outcome in those) / len(those),
        )
        for number, those in sorted(by_bin.items())
    ]


def calibration_error(bins: Sequence[Bin]) -> float | None:
    """Returns the mean distance between confidence and accuracy, weighted by the bins' sizes."""
    cases = sum(each.cases for each in bins)
    return math.fsum(each.cases * abs(each.accuracy - each.confidence) for each in bins) / cases if cases else None


def by_method(scored: Iterable[Outcome]) -> dict[str, ByMethod]:
    """Returns each method's decisions, the most used first."""
    right: Counter[str] = Counter()
    cases: Counter[str] = Counter()
    for outcome in scored:
        cases[outcome.method] += 1
        right[outcome.method] += outcome.right
    ordered = sorted(cases, key=lambda method: (-cases[method], method))
    return {method: ByMethod(cases[method], right[method] / cases[method]) for method in ordered}


def by_groups(scored: Sequence[Outcome]) -> dict[str, dict[str, ByGroup]]:
    """Returns the groups of cases by key, at most 50 for each, the largest first. Cases without the key are in none."""
    repaired = {id(outcome) for outcome in after_errors(scored)}
    found: dict[str, dict[str, list[Outcome]]] = {}
    for outcome in scored:
        for key, name in outcome.groups.items():
            found.setdefault(key, {}).setdefault(name, []).append(outcome)
    return {
        key: {
            name: ByGroup(
                len(those),
                sum(outcome.right for outcome in those) / len(those),
                share(outcome.right for outcome in those if id(outcome) in repaired),
            )
            for name, those in sorted(groups.items(), key=lambda item: -len(item[1]))[:MAX_GROUPS]
        }
        for key, groups in found.items()
    }


def confusions(scored: Iterable[Outcome]) -> tuple[Confusion, ...]:
    """Returns the confusions, most frequent first; ties in order of their first message."""
    found: dict[tuple[str | None, str | None], list[str]] = {}
    for outcome in scored:
        if not outcome.right:
            found.setdefault((outcome.expected, outcome.chosen), []).append(outcome.text)
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    return tuple(Confusion(*pair, len(texts), _cut(texts[0])) for pair, texts in ordered)


def _cut(text: str) -> str:
    return text if len(text) <= EXAMPLE_CHARACTERS else text[: EXAMPLE_CHARACTERS - 1] + "…"


def coverage(scored: Iterable[Outcome]) -> list[tuple[float, float]]:
    """Returns (coverage, precision) points for the best agent's confidence as a threshold.

    One point for each confidence that occurs, from the highest to the lowest.
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


def _best_first(candidates: tuple[Candidate, ...]) -> list[Candidate]:
    return sorted(candidates, key=lambda candidate: -candidate.score)
