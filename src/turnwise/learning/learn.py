"""Learns examples from labelled decisions, and refuses what is not better on later ones (behaviours C16, H3–H5)."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from pydantic import JsonValue

from turnwise.facts.errors import PolicyError
from turnwise.facts.tree import AgentTree
from turnwise.guardrails.personal_data import KINDS, find
from turnwise.learning.intervals import Difference, paired_difference
from turnwise.learning.labelled import NEARLY_EQUAL, Labelled, Split, capped, split, without_contradictions
from turnwise.selection.cascade import Cascade
from turnwise.selection.vectors import encode_checked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEARN_LEAST, FINAL_LEAST = 10, 15
"""The least numbers of labelled messages to learn from, and to judge with."""
MOST_LEARNED = 50
"""The most examples that an agent learns at once."""
EXAMPLE_CHARACTERS = 300
_DROP_LEAST, _KEPT_LEAST = 3, 3
_WORD = re.compile(r"[^\W\d_]{2,}")


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


@dataclass(frozen=True, slots=True)
class Proposal:
    """Changes of the agents' examples."""

    name: str
    add: Mapping[str, tuple[str, ...]]
    """New examples by agent."""
    drop: Mapping[str, tuple[str, ...]]
    """Examples to remove, by agent."""

    @property
    def is_empty(self) -> bool:
        return not self.add and not self.drop

    @property
    def size(self) -> int:
        """The number of changes."""
        return sum(map(len, [*self.add.values(), *self.drop.values()]))

    def applied(self, tree: AgentTree) -> AgentTree:
        """Returns the tree with these examples."""
        return AgentTree(
            [
                card.replace(
                    examples=(
                        *(text for text in card.examples if text not in self.drop.get(card.name, ())),
                        *self.add.get(card.name, ()),
                    )
                )
                for card in tree
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What was learned, or why nothing was."""

    proposal: Proposal | None
    """None when nothing is proposed."""
    refusal: str = ""
    """Why nothing is proposed; empty otherwise."""
    labels: int
    """The number of labelled messages."""
    left_out: Mapping[str, int]
    """How many of them do not count, by reason."""
    learned_from: int = 0
    judged_by: int = 0
    """The number of later messages that judged the proposal."""
    accuracy_before: float | None = None
    accuracy_after: float | None = None
    gain: Difference | None = None
    """The change on the later messages."""
    by_agent: Mapping[str, Difference] | None = None
    """The same for the messages of each agent."""

    def data(self) -> dict[str, JsonValue]:
        """Returns all as plain data. Shares are 0 to 1."""
        proposal = self.proposal
        return {
            "learned": proposal is not None,
            "refusal": self.refusal or None,
            "labels": self.labels,
            "left_out": dict[str, JsonValue](self.left_out),
            "learned_from": self.learned_from,
            "judged_by": self.judged_by,
            "accuracy_before": self.accuracy_before,
            "accuracy_after": self.accuracy_after,
            "gain": _difference_data(self.gain),
            "by_agent": {name: _difference_data(each) for name, each in (self.by_agent or {}).items()},
            "add": {name: list(texts) for name, texts in proposal.add.items()} if proposal else {},
            "drop": {name: list(texts) for name, texts in proposal.drop.items()} if proposal else {},
        }


def _difference_data(found: Difference | None) -> dict[str, JsonValue] | None:
    if found is None:
        return None
    low, high = round(found.low, 6), round(found.high, 6)
    return {"mean": round(found.mean, 6), "low": low, "high": high, "decisions": found.decisions}


async def learn(cascade: Cascade, traffic: Traffic, *, min_gain: float = 0.0, max_loss: float = 0.0, seed: int = 0) -> Learned:
    """Proposes examples from labelled messages, if they make later ones better.

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
    work = _Work(cascade, traffic, vectors)
    inner = split(labelled, parts.learn, vectors)
    best = await _best_kind(work, inner.learn, inner.final)
    proposal = work.proposal(best, parts.learn) if best else None
    if personal := work.personal(parts.learn):
        base = replace(base, left_out={**base.left_out, "holds personal data": personal})
    if proposal is None or proposal.is_empty:
        return replace(base, refusal="No change of the examples is better on the messages that were left for comparison.")
    judged = await _judged(work, proposal, parts.final, seed)
    refusal = _refusal(judged, min_gain, max_loss)
    return replace(
        base,
        proposal=None if refusal else proposal,
        refusal=refusal,
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
    agreed = without_contradictions(labelled, counted, vectors)
    left_out["contradictory"] = len(counted) - len(agreed)
    parts = split(labelled, agreed, vectors)
    left_out["nearly equal to a later one"] = parts.near_equal
    base = Learned(
        proposal=None,
        labels=len(labelled),
        left_out=+left_out,
        learned_from=len(parts.learn),
        judged_by=len(parts.final),
    )
    return base, parts


def _vectors(cascade: Cascade, labelled: Sequence[Labelled]) -> "NDArray[np.float32]":
    import numpy as np

    assert cascade.meaning is not None
    encoder = cascade.meaning.encoder
    if not labelled:
        return np.zeros((0, encoder.dimensions), dtype=np.float32)
    return encode_checked([each.text.strip() or "-" for each in labelled], encoder)


def _too_little(labelled: Sequence[Labelled], learn_from: Sequence[int], final: Sequence[int]) -> str:
    if len(learn_from) < LEARN_LEAST or len(final) < FINAL_LEAST:
        return (
            f"There are {len(learn_from)} labelled messages to learn from and {len(final)} to judge with; "
            f"at least {LEARN_LEAST} and {FINAL_LEAST} are needed, of several users or sessions."
        )
    if len({labelled[index].expected for index in learn_from}) < 2:
        return "All labels name the same agent, so nothing can be told apart."
    return ""


class _Work:
    """Makes proposals from labelled messages, and decides with them."""

    def __init__(self, cascade: Cascade, traffic: Traffic, vectors: "NDArray[np.float32]") -> None:
        self.cascade, self.traffic, self.vectors = cascade, traffic, vectors
        self.labelled = traffic.labelled
        self._default = cascade.spec.default or cascade.tree.root

    def proposal(self, kind: str, which: Sequence[int]) -> Proposal:
        """Returns the proposal of that kind: `corrections` adds what was wrong, `openings` all, `drops` removes, too."""
        used = [index for index in which if self._teaches(index)]
        if kind == "corrections":
            used = [index for index in used if not self.labelled[index].is_right]
        add = self._additions(used)
        return Proposal(kind, add, self._drops(which) if kind == "drops" else {})

    def personal(self, which: Sequence[int]) -> int:
        """Returns how many messages would teach but hold personal data."""
        return sum(self._is_example(index) and _is_personal(self.labelled[index].text) for index in which)

    def _teaches(self, index: int) -> bool:
        return self._is_example(index) and not _is_personal(self.labelled[index].text)

    def _is_example(self, index: int) -> bool:
        each = self.labelled[index]
        return each.opens and len(each.text) <= EXAMPLE_CHARACTERS and len(_WORD.findall(each.text)) >= 2

    def _additions(self, used: Sequence[int]) -> dict[str, tuple[str, ...]]:
        """Returns the new examples by agent, the latest first, without texts that are nearly equal to one of the agent's."""
        by_agent: defaultdict[str, list[int]] = defaultdict(list)
        for index in sorted(used, key=lambda index: (-self.labelled[index].at, index)):
            by_agent[self.labelled[index].expected or self._default].append(index)
        found = {}
        for agent, indices in sorted(by_agent.items()):
            own = self._encoded(self.cascade.tree.card(agent).examples)
            new: list[int] = []
            for index in indices:
                known = [*own, *(self.vectors[other] for other in new)]
                if len(new) < MOST_LEARNED and all(float(self.vectors[index] @ vector) <= NEARLY_EQUAL for vector in known):
                    new.append(index)
            if new:
                found[agent] = tuple(self.labelled[index].text.strip() for index in new)
        return found

    def _drops(self, which: Sequence[int]) -> dict[str, tuple[str, ...]]:
        """Returns examples that attract messages of other agents, and none of their own."""
        found = {}
        for agent in sorted({self.labelled[index].chosen or "" for index in which}):
            examples = self.cascade.tree.card(agent).examples if agent in self.cascade.tree else ()
            if len(examples) <= _KEPT_LEAST:
                continue
            own, right, wrong = self._encoded(examples), Counter[int](), Counter[int]()
            for index in which:
                each = self.labelled[index]
                if each.chosen == agent and each.opens:
                    nearest = int((own @ self.vectors[index]).argmax())
                    (right if each.is_right else wrong)[nearest] += 1
            bad = [place for place, count in wrong.most_common() if count >= _DROP_LEAST and not right[place]]
            bad = bad[: len(examples) - _KEPT_LEAST]
            if bad:
                found[agent] = tuple(examples[place] for place in bad)
        return found

    def _encoded(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        import numpy as np

        if not texts or self.cascade.meaning is None:
            return np.zeros((0, self.vectors.shape[1]), dtype=np.float32)
        return encode_checked(list(texts), self.cascade.meaning.encoder)

    async def rights(self, cascade: Cascade, which: Sequence[int]) -> list[bool]:
        """Returns whether each message is right with that cascade."""
        chosen = await self.traffic.choices(cascade, which)
        return [agent == self.labelled[index].expected for agent, index in zip(chosen, which, strict=True)]

    async def rights_with(self, proposal: Proposal, which: Sequence[int]) -> list[bool]:
        """Returns whether each message is right with the proposal."""
        other = self.cascade.with_policy(self.cascade.spec, tree=proposal.applied(self.cascade.tree))
        try:
            await other.prepare()
            return await self.rights(other, which)
        finally:
            other.close()


KINDS_OF_PROPOSALS = ("corrections", "openings", "drops")
"""The proposals that are compared: in order of how much they change."""


async def _best_kind(work: _Work, learn_from: Sequence[int], compare: Sequence[int]) -> str | None:
    """Returns the kind of proposal that decides the most messages right; None when none is better than no change."""
    if not learn_from or not compare:
        return None
    most, best = sum(await work.rights(work.cascade, compare)), None
    tried: list[Proposal] = []
    for kind in KINDS_OF_PROPOSALS:
        proposal = work.proposal(kind, learn_from)
        if proposal.is_empty or any((each.add, each.drop) == (proposal.add, proposal.drop) for each in tried):
            continue
        tried.append(proposal)
        right = sum(await work.rights_with(proposal, compare))
        if right > most:
            most, best = right, kind
    return best


@dataclass(frozen=True, slots=True)
class _Judged:
    before: float
    after: float
    gain: Difference
    by_agent: dict[str, Difference]


async def _judged(work: _Work, proposal: Proposal, final: Sequence[int], seed: int) -> _Judged:
    before, after = await work.rights(work.cascade, final), await work.rights_with(proposal, final)
    groups = [f"{work.labelled[index].user}\n{work.labelled[index].session}" for index in final]
    by_agent: dict[str, Difference] = {}
    for agent in sorted({work.labelled[index].expected or "" for index in final}):
        own = [place for place, index in enumerate(final) if (work.labelled[index].expected or "") == agent]
        picked = [[values[place] for place in own] for values in (before, after, groups)]
        by_agent[agent or "(nobody)"] = paired_difference(picked[0], picked[1], picked[2], seed=seed)  # type: ignore[arg-type]
    total = len(final)
    gain = paired_difference(before, after, groups, seed=seed)
    return _Judged(round(sum(before) / total, 6), round(sum(after) / total, 6), gain, by_agent)


def _refusal(judged: _Judged, min_gain: float, max_loss: float) -> str:
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


def _is_personal(text: str) -> bool:
    return any(True for _ in find(text.encode("utf-8", "replace"), KINDS))
