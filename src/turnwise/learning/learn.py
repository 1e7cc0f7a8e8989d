"""Learns from labelled decisions, and refuses what is not better on later ones (behaviours C16, C18, H3–H5)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from pydantic import JsonValue

from turnwise.facts.errors import PolicyError
from turnwise.learning.draft_gain import LEVEL, Difference, paired_difference
from turnwise.learning.labelled import (
    CappedCredential,
    Labelled,
    Split,
    Trust,
    capped,
    capped_credentials,
    split,
    trust_in,
    without_contradictions,
)
from turnwise.learning.proposals import KINDS_OF_PROPOSALS, Proposal, Proposer
from turnwise.learning.tune import Scored, Tunable, TunedOption, adapted_options, tuned_options, with_tuned
from turnwise.selection.cascade import Cascade
from turnwise.selection.vectors import encode_checked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEARN_LEAST, FINAL_LEAST = 10, 15
"""The least numbers of labelled messages to learn from, and to judge with."""
OPTIONS_LEAST, OPTIONS_GAIN, OPTIONS_SHARE = 40, 2, 0.02
"""Thresholds are tuned on that many messages at least, and change if that many more, and that share, are right."""
ERRORS_SHOWN = 0.7
"""The share of errors that is assumed to show in signals: the log cannot tell."""
_LEAST_SHOWN = 0.1
_TENTHS = tuple(number / 10 for number in range(1, 10))
LEARNED: Tunable = {
    "patterns": {"threshold": (0.5, 0.6, 0.7, 0.8, 0.9)},
    "semantic": {"threshold": _TENTHS},
    "contextual": {"nobody": _TENTHS},
    "smalltalk": {"threshold": _TENTHS},
    "clarify": {"margin": (0.0, 0.05, 0.1, 0.2, 0.3)},
}
"""The options that are learned, with the values to try: fewer than `tune.TUNABLE`, because labels are few."""


class Traffic(Protocol):
    """Labelled messages in their conversations."""

    @property
    def labelled(self) -> Sequence[Labelled]: ...

    async def choices(self, cascade: Cascade, which: Sequence[int]) -> list[str | None]:
        """Decides these messages again, each after what was really said before. Runs no agent.

        Returns:
            The chosen agent of each; None for the default agent or a question to the user.
        """
        ...


@runtime_checkable
class Conversations(Traffic, Protocol):
    """Labelled messages in conversations, with the scores that the contextual stage gives."""

    async def weighed(self, cascade: Cascade, which: Sequence[int]) -> list[Scored]:
        """Decides these messages again, as `choices`, and returns the scores of the contextual stage for each."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The learned proposal, or the reason why there is none."""

    proposal: Proposal | None
    """None when nothing is proposed."""
    refusal: str = ""
    """Why nothing is proposed; empty otherwise."""
    labels: int
    """The number of labelled messages."""
    left_out: Mapping[str, int]
    """How many of them do not count, by reason."""
    capped_credentials: Sequence[CappedCredential] = ()
    """The credentials that named several users and gave too many labels."""
    learned_from: int = 0
    judged_by: int = 0
    """The number of later messages that judge."""
    judged_at: tuple[float, ...] = ()
    """The times of the later messages, if they judged a proposal."""
    accuracy_before: float | None = None
    accuracy_after: float | None = None
    gain: Difference | None = None
    """The change on the later messages."""
    by_agent: Mapping[str, Difference] | None = None
    """The same for the messages of each agent."""

    def data(self) -> dict[str, JsonValue]:
        """Returns all as plain data. Shares are 0 to 1."""
        proposal = self.proposal or Proposal({}, {}, {})
        return {
            "learned": self.proposal is not None,
            "refusal": self.refusal or None,
            "labels": self.labels,
            "left_out": dict[str, JsonValue](self.left_out),
            "learned_from": self.learned_from,
            "judged_by": self.judged_by,
            "accuracy_before": self.accuracy_before,
            "accuracy_after": self.accuracy_after,
            "gain": _difference_data(self.gain),
            "by_agent": {name: _difference_data(each) for name, each in (self.by_agent or {}).items()},
            **proposal.data(),
        }


def _difference_data(found: Difference | None) -> dict[str, JsonValue] | None:
    if found is None:
        return None
    low, high = round(found.low, 6), round(found.high, 6)
    return {"mean": round(found.mean, 6), "low": low, "high": high, "decisions": found.decisions}


async def learn(cascade: Cascade, traffic: Traffic, *, min_gain: float = 0.0, max_loss: float = 0.0, seed: int = 0) -> Learned:
    """Proposes examples, pattern confidences and thresholds from labelled messages, if they make later ones better.

    Messages are split by time: the latest judge, the others teach. A user's messages stay on one side, and so do nearly equal
    texts. Several proposals are compared on the latest of the messages that teach. The best one is made again from all of
    them, and judged once. The same labels and seed give the same result.

    Args:
        cascade: The policy and the agents as they are.
        traffic: The labelled messages.
        min_gain: The least gain of accuracy on the later messages, 0 to 1. Its interval must not reach below zero either.
        max_loss: The most that an agent may lose, 0 to 1: refused when an agent's whole interval is below.
        seed: The seed of the intervals.

    Raises:
        PolicyError: The policy does not compare messages with examples.
        EncoderError: A text has no vector.
    """
    if cascade.meaning is None:
        problem = f"Policy {cascade.spec.name!r} does not compare messages with examples, so it cannot learn any."
        raise PolicyError(problem, fix="Use a policy with a contextual or semantic stage, such as `default`.")
    labelled, vectors = traffic.labelled, _vectors(cascade, traffic.labelled)
    base, parts = _counted(cascade, labelled, vectors)
    refusal = _too_little(labelled, parts.learn, parts.final)
    if refusal:
        return replace(base, refusal=refusal)
    trust = trust_in(labelled, parts.learn, vectors)
    if doubted := sum(map(trust.is_doubted, parts.learn)):
        base = replace(base, left_out={**base.left_out, "others contradict it": doubted})
    teaching = [index for index in parts.learn if not trust.is_doubted(index)]
    trials = _Trials(cascade, traffic, Proposer(cascade, labelled, vectors, trust))
    inner = split(labelled, teaching, vectors)
    plan = await _best_plan(trials, inner.learn, inner.final)
    proposal = plan.proposal(trials.proposer, teaching)
    if personal := trials.proposer.personal(teaching):
        base = replace(base, left_out={**base.left_out, "holds personal data": personal})
    if proposal.is_empty:
        return replace(base, refusal="No change is better on the messages that were left for comparison.")
    judged = await _judged(trials, proposal, parts.final, trust_in(labelled, parts.final, vectors), seed)
    refusal = _refusal(judged, min_gain, max_loss)
    return replace(
        base,
        proposal=None if refusal else proposal,
        refusal=refusal,
        judged_at=tuple(sorted(labelled[index].at for index in parts.final)),
        accuracy_before=judged.before,
        accuracy_after=judged.after,
        gain=judged.gain,
        by_agent=judged.by_agent,
    )


def _counted(cascade: Cascade, labelled: Sequence[Labelled], vectors: "NDArray[np.float32]") -> tuple[Learned, Split]:
    """Returns the numbers of messages that count and that do not, and the split of those that count."""
    left_out: Counter[str] = Counter()
    known = [index for index, each in enumerate(labelled) if each.expected is None or each.expected in cascade.tree]
    left_out["agent is gone"] = len(labelled) - len(known)
    counted = [known[place] for place in capped([labelled[index] for index in known])]
    left_out["over the cap of its source"] = len(known) - len(counted)
    over = set(known).difference(counted)
    agreed = without_contradictions(labelled, counted, vectors)
    left_out["contradictory"] = len(counted) - len(agreed)
    parts = split(labelled, agreed, vectors)
    left_out["nearly equal to a later one"] = parts.near_equal
    base = Learned(
        proposal=None,
        labels=len(labelled),
        left_out=+left_out,
        capped_credentials=capped_credentials(labelled[index] for index in over),
        learned_from=len(parts.learn),
        judged_by=len(parts.final),
    )
    return base, parts


def _vectors(cascade: Cascade, labelled: Sequence[Labelled]) -> "NDArray[np.float32]":
    """Returns the vectors of the labelled messages."""
    import numpy as np

    assert cascade.meaning is not None
    encoder = cascade.meaning.encoder
    if not labelled:
        return np.zeros((0, encoder.dimensions), dtype=np.float32)
    return encode_checked([each.text.strip() or "-" for each in labelled], encoder)


def _too_little(labelled: Sequence[Labelled], learn_from: Sequence[int], final: Sequence[int]) -> str:
    """Returns why the labels do not suffice; empty if they do."""
    if len(learn_from) < LEARN_LEAST or len(final) < FINAL_LEAST:
        return (
            f"There are {len(learn_from)} labelled messages to learn from and {len(final)} to judge with; "
            f"at least {LEARN_LEAST} and {FINAL_LEAST} are needed, of several users or sessions."
        )
    if len({labelled[index].expected for index in learn_from}) < 2:
        return "All labels name the same agent, so nothing can be told apart."
    return ""


class _Decided(NamedTuple):
    """A message decided with a proposal, for the tuning."""

    expected: str | None
    right: bool


class _Trials:
    """Decides labelled messages with proposals."""

    def __init__(self, cascade: Cascade, traffic: Traffic, proposer: Proposer) -> None:
        self.cascade, self._traffic, self.proposer = cascade, traffic, proposer
        self.labelled = traffic.labelled

    async def decided(self, cascade: Cascade, which: Sequence[int]) -> list[_Decided]:
        chosen = await self._traffic.choices(cascade, which)
        expected = [self.labelled[index].expected for index in which]
        return [_Decided(wanted, agent == wanted) for agent, wanted in zip(chosen, expected, strict=True)]

    async def rights(self, cascade: Cascade, which: Sequence[int], trust: Trust) -> list[float]:
        """Returns the probability that each message is right with that cascade, as far as these labels say."""
        chosen = await self._traffic.choices(cascade, which)
        return [trust.chance(index, agent) for index, agent in zip(which, chosen, strict=True)]

    async def rights_with(self, proposal: Proposal, which: Sequence[int], trust: Trust) -> list[float]:
        """Returns the same with the proposal."""
        async with proposal.cascade(self.cascade) as cascade:
            return await self.rights(cascade, which, trust)

    def weights(self, which: Sequence[int]) -> list[float]:
        """Returns how much each message counts: 1, but more for right decisions that signals confirm.

        Most errors show in a conversation, and fewer of the right decisions do. Each of these therefore counts for several.
        """
        found = []
        for index in which:
            each = self.labelled[index]
            is_sample = not each.by_operator and each.is_right and each.probability is not None
            found.append(max(ERRORS_SHOWN / max(each.probability or 1.0, _LEAST_SHOWN), 1.0) if is_sample else 1.0)
        return found

    async def worth(self, cascade: Cascade, which: Sequence[int]) -> float:
        """Returns how many messages are right, by weight and by the labels that teach."""
        rights = await self.rights(cascade, which, self.proposer.trust)
        return sum(weight * right for weight, right in zip(self.weights(which), rights, strict=True))

    async def options_with(self, proposal: Proposal, which: Sequence[int]) -> tuple[TunedOption, ...]:
        """Returns the options, of the policy and of its segments, that decide more of these messages right."""
        async with proposal.cascade(self.cascade) as changed:
            cascade, found = changed, list[TunedOption]()
            # Each is tuned on its own callers: those of a segment say nothing of the others.
            for segment in (None, *(each.label for each in self.cascade.spec.segments)):
                own = [index for index in which if self.labelled[index].segment == segment]
                cascade, more = await self._tuned(cascade, own, segment)
                found += more
            return tuple(found)

    async def _tuned(
        self, cascade: Cascade, which: Sequence[int], segment: str | None
    ) -> tuple[Cascade, tuple[TunedOption, ...]]:
        """Tunes thresholds and adaptation on these messages, and keeps each change only if it is better there."""
        if len(which) < OPTIONS_LEAST:
            return cascade, ()
        _, thresholds = await tuned_options(
            cascade, lambda changed: self.decided(changed, which), tunable=LEARNED, segment=segment
        )
        cascade, first = await self._if_better(cascade, which, thresholds)
        cascade, second = await self._if_better(cascade, which, await self._adapted(cascade, which, segment))
        return cascade, (*first, *second)

    async def _adapted(self, cascade: Cascade, which: Sequence[int], segment: str | None) -> tuple[TunedOption, ...]:
        """Returns the adaptation of the contextual stage that fits these messages best."""
        traffic = self._traffic
        if not isinstance(traffic, Conversations):
            return ()
        expected = [self.labelled[index].expected for index in which]
        weights = [weight * self.proposer.trust.belief(index) for index, weight in zip(which, self.weights(which), strict=True)]
        return await adapted_options(
            cascade, lambda changed: traffic.weighed(changed, which), expected, weights, segment=segment
        )

    async def _if_better(
        self, cascade: Cascade, which: Sequence[int], options: tuple[TunedOption, ...]
    ) -> tuple[Cascade, tuple[TunedOption, ...]]:
        """Returns the cascade with the options, and these, if clearly more of the messages are right; else as it is."""
        if not options:
            return cascade, ()
        other = cascade.with_policy(with_tuned(cascade.spec, options))
        gained = await self.worth(other, which) - await self.worth(cascade, which)
        is_better = gained >= max(OPTIONS_GAIN, OPTIONS_SHARE * len(which))
        return (other, options) if is_better else (cascade, ())


@dataclass(frozen=True, slots=True)
class _Plan:
    """The plan of a proposal: it is found on some messages and carried out with all that teach."""

    examples: str | None = None
    """One of `KINDS_OF_PROPOSALS`; None changes no examples."""
    patterns: bool = False
    options: tuple[TunedOption, ...] = ()

    def proposal(self, proposer: Proposer, which: Sequence[int]) -> Proposal:
        base = proposer.examples(self.examples, which) if self.examples else Proposal({}, {}, {})
        patterns = proposer.patterns(which) if self.patterns else {}
        return replace(base, patterns=patterns, options=self.options)


async def _best_plan(trials: _Trials, learn_from: Sequence[int], compare: Sequence[int]) -> _Plan:
    """Returns the plan that decides the most messages right. An empty one when none is better than no change."""
    best = _Plan()
    if not learn_from or not compare:
        return best
    most = await trials.worth(trials.cascade, compare)
    tried: list[Proposal] = []
    for kind in (*KINDS_OF_PROPOSALS, None):
        plan = _Plan(kind) if kind else replace(best, patterns=True)
        proposal = plan.proposal(trials.proposer, learn_from)
        if proposal.is_empty or proposal in tried:
            continue
        tried.append(proposal)
        async with proposal.cascade(trials.cascade) as changed:
            right = await trials.worth(changed, compare)
        if right > most:
            most, best = right, plan
    return replace(best, options=await trials.options_with(best.proposal(trials.proposer, learn_from), compare))


@dataclass(frozen=True, slots=True)
class _Judged:
    before: float
    after: float
    gain: Difference
    by_agent: dict[str, Difference]


async def _judged(trials: _Trials, proposal: Proposal, final: Sequence[int], trust: Trust, seed: int) -> _Judged:
    """Compares a proposal with what serves, on messages that it did not learn from."""
    before = await trials.rights(trials.cascade, final, trust)
    after = await trials.rights_with(proposal, final, trust)
    weights = trials.weights(final)
    groups = [f"{trials.labelled[index].user}\n{trials.labelled[index].session}" for index in final]
    by_agent: dict[str, Difference] = {}
    agents = sorted({trials.labelled[index].expected or "" for index in final})
    # Signals are wrong now and then, so of many agents some would seem to lose by chance. Operators' labels are taken as right.
    are_sure = all(trials.labelled[index].by_operator for index in final)
    level = LEVEL if are_sure else 1 - (1 - LEVEL) / len(agents)
    for agent in agents:
        own = [place for place, index in enumerate(final) if (trials.labelled[index].expected or "") == agent]
        by_agent[agent or "(nobody)"] = paired_difference(
            [before[place] for place in own],
            [after[place] for place in own],
            [groups[place] for place in own],
            weights=[weights[place] for place in own],
            seed=seed,
            level=level,
        )
    gain = paired_difference(before, after, groups, weights=weights, seed=seed)
    return _Judged(_share(before, weights), _share(after, weights), gain, by_agent)


def _share(rights: Sequence[float], weights: Sequence[float]) -> float:
    return round(sum(weight * right for weight, right in zip(weights, rights, strict=True)) / sum(weights), 6)


def _refusal(judged: _Judged, min_gain: float, max_loss: float) -> str:
    """Returns why a proposal is refused: no sure gain, or an agent that loses; empty if it is not."""
    gain = judged.gain
    if gain.mean <= 0 or gain.mean < min_gain or gain.low < 0:
        return (
            f"On the later messages the gain is {100 * gain.mean:+.1f} points, between {100 * gain.low:+.1f} and "
            f"{100 * gain.high:+.1f}: that is not surely a gain of at least {100 * min_gain:.1f}."
        )
    losers = [name for name, each in judged.by_agent.items() if each.high < -max_loss]
    if losers:
        worst = min(losers, key=lambda name: judged.by_agent[name].mean)
        lost = -100 * judged.by_agent[worst].mean
        return f"{worst} would lose {lost:.1f} points; a loss of more than {100 * max_loss:.1f} is refused."
    return ""
