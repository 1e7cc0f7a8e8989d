"""Fits how the contextual model is adapted to an app: four numbers, held near what is shipped (behaviours C17, H5).

The numbers are options of a contextual stage. They add to the log-odds of agents, so the chance of the right agent is a
conditional logit model of them. How each number moves an agent's log-odds is measured: all messages are decided again with
that number changed a little.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from turnwise.learning.tune import TunedOption, with_tuned
from turnwise.selection.cascade import Cascade

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Scored = Mapping[str, float]
"""The scores of a contextual stage for a message, by agent; empty if the stage did not weigh it."""
Weigh = Callable[[Cascade], Awaitable[Sequence[Scored]]]
"""Decides the messages and returns the scores of each."""


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
_LEAST_SCORE = 1e-5
"""Scores are recorded with six decimals: smaller ones say too little."""
_STEPS, _DIGITS, _PARTS = 20, 2, 5


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
