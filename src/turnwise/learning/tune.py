"""Tuning: calibration and novelty of the matching, thresholds of a policy's stages, and the contextual model's adaptation.

Validation cases tune the first three. Labelled messages adapt the contextual model to an app (behaviours C17, H5): four
numbers, options of a contextual stage, that are held near what is shipped. They add to the log-odds of agents, so the chance
of the right agent is a conditional logit model of them. How each number moves an agent's log-odds is measured: all messages
are decided again with that number changed a little.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pydantic import JsonValue

from turnwise.facts.tree import AgentTree
from turnwise.learning.cases import Case, openings
from turnwise.learning.evaluate import History, Step, evaluate
from turnwise.learning.measures import share
from turnwise.selection.cascade import Cascade
from turnwise.selection.policy import PolicySpec, SegmentSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SHARES = tuple(number / 40 for number in range(1, 40))
Tunable = Mapping[str, Mapping[str, tuple[float, ...]]]
TUNABLE: Tunable = {
    "patterns": {"threshold": (0.5, 0.6, 0.7, 0.8, 0.9)},
    "semantic": {"threshold": _SHARES},
    "contextual": {"nobody": _SHARES},
    "smalltalk": {"threshold": _SHARES},
    "clarify": {"margin": (0.0, 0.05, 0.1, 0.2, 0.3)},
}
"""The options that are tuned, by selector, with the values to try."""

OUT_OF_SCOPE_SHARE = 0.2
"""Minimum weight of out-of-scope cases."""

DECISIONS = 4_000
"""Maximum number of validation decisions per value; larger sets are sampled evenly."""

Scored = Mapping[str, float]
"""The scores of a contextual stage for a message, by agent; empty if the stage did not weigh it."""
Weigh = Callable[[Cascade], Awaitable[Sequence[Scored]]]
"""Decides the messages and returns the scores of each."""

_LEAST_SCORE = 1e-5
"""Scores are recorded with six decimals: smaller ones say too little."""
_STEPS, _DIGITS, _PARTS = 20, 2, 5


class Judged(Protocol):
    """A decision with the expected agent."""

    @property
    def expected(self) -> str | None:
        """None = out of scope."""
        ...

    @property
    def right(self) -> bool: ...


Decide = Callable[[Cascade], Awaitable[Sequence[Judged]]]
"""Decides the messages to tune on. It returns those that are scored."""


class TunedOption(NamedTuple):
    """An option with its new value."""

    stage: str
    option: str
    value: float
    segment: str | None = None
    """The label of the segment that it holds for; None = the policy."""


class Tuning(NamedTuple):
    """A tuned cascade."""

    cascade: Cascade
    changes: dict[str, JsonValue]
    """The values that changed, by `stage.option`; `messages`, the number of messages that the matching was tuned on; the
    accuracy on the validation cases before and after, which never decreases; and `out_of_scope`, the share that weighs both
    accuracies, if one was stated and the cases are of both kinds.
    """


async def tuned(
    cascade: Cascade,
    cases: Sequence[Case],
    *,
    history: History = "own",
    step: Step = lambda: None,
    tunable: Tunable = TUNABLE,
    out_of_scope: float | None = None,
) -> Tuning:
    """Tunes a cascade to the highest accuracy on these cases.

    First the matching is tuned on their messages; of dialogues, on those that start them or change the agent. Then each option
    is tuned by trying its values, one option after the other in the policy's order. A change is kept only if it improves the
    weighted accuracy and does not reduce the plain accuracy. If tuning the matching brings no gain, the options are tuned
    with the original matching. Among equally good values, it uses the middle one.

    The options separate in-scope from out-of-scope messages, so they are tuned only if the cases contain both kinds; otherwise
    rejecting everything or nothing would be best. Out-of-scope cases weigh at least a fifth, since collected data contains too
    few of them. If the traffic's share is stated (`out_of_scope`), it replaces that of the file, and the plain accuracy
    does not count.

    Args:
        cascade: The cascade.
        cases: The validation cases.
        history: How a dialogue continues.
        step: Called after each decision.
        tunable: The options to tune; may include those of custom selectors.
        out_of_scope: Share of the traffic that is out of scope, between 0 and 1; None = unknown. The accuracies of the result
            are weighted by it.
    """
    sampled = _sampled(cases)

    async def decide(cascade: Cascade) -> Sequence[Judged]:
        outcomes = await evaluate(cascade, sampled, history=history, step=step)
        return [outcome for outcome in outcomes if outcome.scored]

    trials = _Trials(decide, out_of_scope=out_of_scope)
    before = await trials.run(cascade)
    stated: dict[str, JsonValue] = {"out_of_scope": out_of_scope} if out_of_scope is not None and before.has_both_kinds else {}
    refitted, messages = await _tuned_meaning(cascade, cases)
    if messages:
        found, options, reached = await _with_options(refitted, tunable, trials, await trials.run(refitted))
        if reached.is_better_than(before):
            return _tuning(found, {**stated, "messages": messages}, options, before, reached)
    found, options, reached = await _with_options(cascade, tunable, trials, before)
    return _tuning(found, stated, options, before, reached)


async def tuned_options(
    cascade: Cascade, decide: Decide, *, tunable: Tunable = TUNABLE, segment: str | None = None
) -> tuple[Cascade, tuple[TunedOption, ...]]:
    """Tunes the options only, as `tuned`. Returns the cascade with the better options, and these.

    Args:
        cascade: The cascade.
        decide: Decides the messages to tune on.
        tunable: The options to tune, with the values to try.
        segment: Tunes the options of the segment with this label; None = those of the policy.
    """
    trials = _Trials(decide, segment)
    found, options, _ = await _with_options(cascade, tunable, trials, await trials.run(cascade))
    return found, options


async def _with_options(
    cascade: Cascade, tunable: Tunable, trials: "_Trials", now: "_Trial"
) -> "tuple[Cascade, tuple[TunedOption, ...], _Trial]":
    """Tunes the options; returns the cascade with the improved ones, these, and its result."""
    found: list[TunedOption] = []
    for stage, option, values in options_of(cascade, tunable) if now.has_both_kinds else ():
        better, now = await trials.best(cascade, stage, option, values, now)
        if better is not None:
            found.append(better)
            cascade = _with_option(cascade, better)
    return cascade, tuple(found), now


def _tuning(
    found: Cascade, changes: dict[str, JsonValue], options: Sequence[TunedOption], before: "_Trial", after: "_Trial"
) -> Tuning:
    tuned = {f"{each.stage}.{each.option}": each.value for each in options}
    return Tuning(found, {**changes, **tuned, "accuracy_before": before.accuracy, "accuracy_after": after.accuracy})


class _Trial(NamedTuple):
    """Accuracy of one configuration."""

    worth: float
    """The accuracy that is maximized: out-of-scope cases weigh the stated share, else at least `OUT_OF_SCOPE_SHARE`."""
    accuracy: float
    """Plain accuracy; weighted by the share of out-of-scope messages if that is known."""
    has_both_kinds: bool

    def is_better_than(self, other: "_Trial") -> bool:
        """Returns whether the weighted accuracy is higher and the plain accuracy is not lower."""
        return self.worth > other.worth and self.accuracy >= other.accuracy


class _Trials:
    """Evaluates configurations on the same messages."""

    def __init__(self, decide: Decide, segment: str | None = None, *, out_of_scope: float | None = None) -> None:
        self._decide, self._segment, self._out_of_scope = decide, segment, out_of_scope

    async def run(self, cascade: Cascade) -> _Trial:
        """Measures a policy on the validation cases."""
        scored = await self._decide(cascade)
        accuracy = share(outcome.right for outcome in scored) or 0.0
        known = share(outcome.right for outcome in scored if outcome.expected is not None)
        rejected_right = share(outcome.right for outcome in scored if outcome.expected is None)
        if known is None or rejected_right is None:
            return _Trial(accuracy, accuracy, has_both_kinds=False)
        in_file = sum(outcome.expected is None for outcome in scored) / len(scored)
        weight = max(OUT_OF_SCOPE_SHARE, in_file) if self._out_of_scope is None else self._out_of_scope
        worth = (1.0 - weight) * known + weight * rejected_right
        return _Trial(worth, accuracy if self._out_of_scope is None else worth, has_both_kinds=True)

    async def best(
        self, cascade: Cascade, stage: str, option: str, values: tuple[float, ...], before: _Trial
    ) -> tuple[TunedOption | None, _Trial]:
        """Returns the best value of an option with its result; None when no value is an improvement."""
        options = [TunedOption(stage, option, value, self._segment) for value in values]
        reached = {each.value: await self.run(_with_option(cascade, each)) for each in options}
        better = {value: trial for value, trial in reached.items() if trial.is_better_than(before)}
        value = _middle(better) if better else None
        return (None, before) if value is None else (TunedOption(stage, option, value, self._segment), reached[value])


def _middle(reached: Mapping[float, _Trial]) -> float:
    most = max(trial.worth for trial in reached.values())
    best = sorted(value for value, trial in reached.items() if trial.worth == most)
    return best[len(best) // 2]


def decisions(cascade: Cascade, cases: Sequence[Case]) -> int:
    """Returns the maximum number of decisions that `tuned` makes."""
    passes = 1 + sum(len(values) for _, _, values in options_of(cascade))
    passes *= 2 if cascade.meaning else 1  # repeated with the original matching if the tuned one is no improvement
    return passes * sum(len(case.turns) for case in _sampled(cases))


def options_of(cascade: Cascade, tunable: Tunable = TUNABLE) -> list[tuple[str, str, tuple[float, ...]]]:
    """Returns the tunable options that can affect the policy's decisions: stage name, option, values to try."""
    spec, found = cascade.spec, []
    has_patterns = any(pattern.active for card in cascade.tree for pattern in card.patterns)
    for name, stage in zip(spec.stage_names(), spec.stages, strict=True):
        idle = (stage.selector == "patterns" and not has_patterns) or stage.options.get("only") == "answer"
        for option, values in tunable.get(stage.selector, {}).items() if not idle else ():
            found.append((name, option, values))
    return found


def labelled(cases: Sequence[Case], tree: AgentTree) -> list[tuple[str, str | None]]:
    """Returns the messages that do not depend on a conversation, with their agent; None = out of scope."""
    found: list[tuple[str, str | None]] = []
    for case in cases:
        if case.dialogue is None:
            found += [(turn.user, turn.agent) for turn in case.turns]
        else:
            found += openings(case)
    return [(text, agent) for text, agent in found if agent is None or agent in tree]


async def _tuned_meaning(cascade: Cascade, cases: Sequence[Case]) -> tuple[Cascade, int]:
    """Fits the matching's scales to the cases, and returns the policy with it and the number of cases."""
    default = cascade.spec.default or cascade.tree.root
    pairs = [(text, None if agent == default else agent) for text, agent in labelled(cases, cascade.tree)]
    if cascade.meaning is None or not pairs:
        return cascade, 0
    meaning = await cascade.meaning.tuned([text for text, _ in pairs], [agent for _, agent in pairs])
    return cascade.with_policy(cascade.spec, meaning=meaning), len(pairs)


def _with_option(cascade: Cascade, changed: TunedOption) -> Cascade:
    return cascade.with_policy(with_tuned(cascade.spec, [changed]))


def with_tuned(spec: PolicySpec, options: Sequence[TunedOption]) -> PolicySpec:
    """Returns the policy with these options. Raises PolicyError when it has no such stage."""
    for each in options:
        change = {each.stage: {each.option: each.value}}
        if each.segment is None:
            spec = spec.with_options(change)
        else:
            segments = [_changed(part, each) if part.label == each.segment else part for part in spec.segments]
            spec = spec.replace(segments=tuple(segments))
    return spec


def _changed(segment: SegmentSpec, changed: TunedOption) -> SegmentSpec:
    own = segment.options.get(changed.stage, {})
    return segment.replace(options={**segment.options, changed.stage: {**own, changed.option: changed.value}})


def _sampled(cases: Sequence[Case]) -> Sequence[Case]:
    every = -(-sum(len(case.turns) for case in cases) // DECISIONS) or 1
    return cases[::every]


class _Number(NamedTuple):
    """A number that is fitted."""

    name: str
    usual: float
    """The standard deviation of the prior around 0: how far the number usually is from what is shipped."""
    most: float


NUMBERS = (
    _Number("stay", 0.7, 3.0),
    _Number("back", 0.7, 3.0),
    _Number("message", 0.15, 1.0),
    _Number("conversation", 0.15, 1.0),
)
"""The options that are fitted."""


async def adapted_options(
    cascade: Cascade,
    weigh: Weigh,
    expected: Sequence[str | None],
    weights: Sequence[float],
    *,
    segment: str | None = None,
) -> tuple[TunedOption, ...]:
    """Returns the options of the contextual stage under which the right agents are likeliest, those that change.

    None change unless numbers that are fitted to four fifths of the messages make the right agents of the others likelier.
    A normal prior around what is shipped holds them back (an L2 penalty), so few labels change little. Messages without a score
    for the right agent do not count. The same labels give the same numbers.

    Args:
        cascade: The policy and the agents.
        weigh: Decides the messages with another policy.
        expected: The right agent of each message; None = nobody, which the numbers do not change.
        weights: How much each message counts.
        segment: The label of the segment to fit; None = those of the policy.

    Raises:
        EncoderError: A message has no vector.
    """
    import numpy as np

    stage = contextual_stage(cascade)
    if stage is None:
        return ()
    options = cascade.options(segment)[stage]
    now = np.array([float(options[each.name]) for each in NUMBERS]) if isinstance(options, dict) else np.zeros(len(NUMBERS))  # type: ignore[arg-type]
    base, moved = await weigh(cascade), []
    for place, each in enumerate(NUMBERS):
        step = each.usual if now[place] + each.usual <= each.most else -each.usual
        option = TunedOption(stage, each.name, float(now[place]) + step, segment)
        changed = await weigh(cascade.with_policy(with_tuned(cascade.spec, [option])))
        moved.append((step, changed))
    rows = [_row(base[at], [(step, found[at]) for step, found in moved], name) for at, name in enumerate(expected)]
    known = [(row, weight) for row, weight in zip(rows, weights, strict=True) if row is not None and weight > 0]
    if _gain_on_others(known, now) <= 0.0:
        return ()
    best, found = _fitted(known, now), []
    for place, each in enumerate(NUMBERS):
        value = round(float(np.clip(best[place], -each.most, each.most)), _DIGITS)
        if value != round(float(now[place]), _DIGITS):
            found.append(TunedOption(stage, each.name, value, segment))
    return tuple(found)


def contextual_stage(cascade: Cascade) -> str | None:
    """Returns the name of the policy's first contextual stage; None without one."""
    spec = cascade.spec
    return next(
        (name for name, each in zip(spec.stage_names(), spec.stages, strict=True) if each.selector == "contextual"), None
    )


class _Row(NamedTuple):
    """A message: the agents that have scores, the right one first."""

    logs: "NDArray[np.float64]"
    """Their log-odds, up to a constant."""
    slopes: "NDArray[np.float64]"
    """How their log-odds change with each number, one row for each agent."""


def _row(base: Scored, moved: Sequence[tuple[float, Scored]], expected: str | None) -> _Row | None:
    """Returns what the fit needs of one message: log scores, and how each option moves them. None if it says nothing."""
    import numpy as np

    names = [
        name for name in base if all(each.get(name, 0.0) >= _LEAST_SCORE for each in (base, *(found for _, found in moved)))
    ]
    if expected is None or expected not in names or len(names) < 2:
        return None
    names = [expected, *sorted(name for name in names if name != expected)]
    logs = np.log([base[name] for name in names])
    slopes = [(np.log([found[name] for name in names]) - logs) / step for step, found in moved]
    return _Row(logs - logs[0], np.stack([each - each[0] for each in slopes], axis=1))


_Known = Sequence[tuple[_Row, float]]
"""Messages with their weights."""


def _gain_on_others(known: _Known, now: "NDArray[np.float64]") -> float:
    """Returns by how much the log-probabilities of the right agents rise, in parts that the numbers are not fitted to."""
    gain, count = 0.0, len(known)
    for part in range(_PARTS):
        held = range(part * count // _PARTS, (part + 1) * count // _PARTS)
        at = _fitted([each for place, each in enumerate(known) if place not in held], now)
        for row, weight in (known[place] for place in held):
            gain += weight * (_log_shares(row, at - now)[0] - _log_shares(row, 0.0 * now)[0])
    return gain


def _log_shares(row: _Row, moved: "NDArray[np.float64]") -> "NDArray[np.float64]":
    import numpy as np

    logs = row.logs + row.slopes @ moved
    found: NDArray[np.float64] = logs - logs.max() - np.log(np.exp(logs - logs.max()).sum())
    return found


def _fitted(known: _Known, now: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Returns the numbers with the highest posterior, by Newton's method. The posterior is concave."""
    import numpy as np

    penalty = np.diag([1.0 / each.usual**2 for each in NUMBERS])
    at = now.copy()
    for _ in range(_STEPS):
        gradient, curvature = -penalty @ at, penalty.copy()
        for row, weight in known:
            shares = np.exp(_log_shares(row, at - now))
            mean = shares @ row.slopes
            gradient += weight * (row.slopes[0] - mean)
            curvature += weight * ((row.slopes * shares[:, None]).T @ row.slopes - np.outer(mean, mean))
        step = np.linalg.solve(curvature, gradient)
        at = at + step
        if float(np.abs(step).max()) < 10.0 ** -(_DIGITS + 2):
            break
    return at
