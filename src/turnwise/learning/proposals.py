"""Proposals: changes of examples, patterns and thresholds that labelled messages suggest."""

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import JsonValue

from turnwise.facts.cards import AgentCard, LearnedExample
from turnwise.facts.tree import AgentTree
from turnwise.guardrails.personal_data import KINDS, find
from turnwise.learning.labelled import NEARLY_EQUAL, Labelled, Trust
from turnwise.learning.tune import TunedOption, with_tuned
from turnwise.matching.patterns import PatternIndex
from turnwise.selection.cascade import Cascade
from turnwise.selection.policy import PolicySpec
from turnwise.selection.vectors import encode_checked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_LEARNED = 50
"""The most examples that an agent learns at once."""
EXAMPLE_CHARACTERS = 300
PATTERN_LEAST, PATTERN_CHANGE = 5, 0.1
"""A pattern's confidence changes if that many messages match, and by that much at least."""
_PRIOR = 2.0
_DROP_LEAST, _KEPT_LEAST, _RIGHT_MOST = 3, 3, 0.5
_WORD = re.compile(r"[^\W\d_]{2,}")

KINDS_OF_PROPOSALS = ("corrections", "openings", "drops")
"""The changes of examples that are compared: in order of how much they change."""

Confidences = Mapping[str, Mapping[str, float]]
"""New confidences by agent and regular expression."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Changes of the agents and of the policy."""

    add: Mapping[str, tuple[LearnedExample, ...]]
    """New examples by agent."""
    drop: Mapping[str, tuple[str, ...]]
    """Examples to remove, by agent."""
    patterns: Confidences
    options: tuple[TunedOption, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.size

    @property
    def size(self) -> int:
        """The number of changes."""
        return sum(map(len, [*self.add.values(), *self.drop.values(), *self.patterns.values(), self.options]))

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that change, by name."""
        return tuple(sorted({*self.add, *self.drop, *self.patterns}))

    def card(self, card: AgentCard) -> AgentCard:
        """Returns the agent's card with the changes."""
        dropped = self.drop.get(card.name, ())
        confidences = self.patterns.get(card.name, {})
        return card.replace(
            examples=tuple(text for text in card.examples if text not in dropped),
            learned=(*(each for each in card.learned if each.text not in dropped), *self.add.get(card.name, ())),
            patterns=tuple(each.replace(confidence=confidences.get(each.regex, each.confidence)) for each in card.patterns),
        )

    def tree(self, tree: AgentTree) -> AgentTree:
        """Returns the agents with the changes."""
        changed = set(self.agents)
        return AgentTree([self.card(card) if card.name in changed else card for card in tree])

    def spec(self, spec: PolicySpec) -> PolicySpec:
        """Returns the policy with the changes."""
        return with_tuned(spec, self.options)

    @asynccontextmanager
    async def cascade(self, cascade: Cascade) -> AsyncIterator[Cascade]:
        """Gives a prepared cascade that decides with the changes. Raises EncoderError."""
        if not self.agents:
            yield cascade.with_policy(self.spec(cascade.spec))  # it shares the fitted texts, so it is not closed
            return
        changed = cascade.with_policy(self.spec(cascade.spec), tree=self.tree(cascade.tree))
        try:
            await changed.prepare()
            yield changed
        finally:
            changed.close()

    def data(self) -> dict[str, JsonValue]:
        """Returns the changes as plain data."""
        return {
            "add": {name: [each.model_dump(mode="json") for each in texts] for name, texts in self.add.items()},
            "drop": {name: list(texts) for name, texts in self.drop.items()},
            "patterns": {name: dict[str, JsonValue](found) for name, found in self.patterns.items()},
            "options": [dict[str, JsonValue](each._asdict()) for each in self.options],
        }


def examples_of(card: AgentCard) -> tuple[str, ...]:
    """Returns the texts of all examples, then of those that the agent learned."""
    return (*card.examples, *(each.text for each in card.learned))


class Proposer:
    """Makes proposals from labelled messages.

    Args:
        cascade: The policy and the agents as they are.
        labelled: All labelled messages.
        vectors: A unit vector of each.
        trust: How sure each label is.
    """

    def __init__(self, cascade: Cascade, labelled: Sequence[Labelled], vectors: "NDArray[np.float32]", trust: Trust) -> None:
        self.cascade, self.labelled, self.vectors, self.trust = cascade, labelled, vectors, trust
        self._default = cascade.spec.default or cascade.tree.root

    def examples(self, kind: str, which: Sequence[int]) -> Proposal:
        """Returns changes of examples: `corrections` adds what was wrong, `openings` all, `drops` removes, too."""
        used = [index for index in which if self._teaches(index)]
        if kind == "corrections":
            used = [index for index in used if not self.labelled[index].is_right]
        return Proposal(self._additions(used), self._drops(which) if kind == "drops" else {}, {})

    def patterns(self, which: Sequence[int]) -> Confidences:
        """Returns confidences of patterns: the share of matching messages that belong to the pattern's agent, by weight.

        The confidence so far counts as two messages.
        """
        found: dict[str, dict[str, float]] = {}
        for card in self.cascade.tree:
            for pattern in card.patterns:
                if not pattern.active:
                    continue
                index = PatternIndex([(card.name, pattern.regex, pattern.confidence)])
                hits = [each for each in which if index.match(self.labelled[each].text)]
                weights = {each: self.trust.belief(each) for each in hits}
                right = sum(weights[each] for each in hits if (self.labelled[each].expected or self._default) == card.name)
                total = sum(weights.values())
                share = round((right + _PRIOR * pattern.confidence) / (total + _PRIOR), 2)
                if total >= PATTERN_LEAST and abs(share - pattern.confidence) >= PATTERN_CHANGE:
                    found.setdefault(card.name, {})[pattern.regex] = share
        return found

    def personal(self, which: Iterable[int]) -> int:
        """Returns how many messages would teach but hold personal data."""
        return sum(self._is_example(index) and _is_personal(self.labelled[index].text) for index in which)

    def _teaches(self, index: int) -> bool:
        return self._is_example(index) and self.trust.is_supported(index) and not _is_personal(self.labelled[index].text)

    def _is_example(self, index: int) -> bool:
        each = self.labelled[index]
        return each.opens and len(each.text) <= EXAMPLE_CHARACTERS and len(_WORD.findall(each.text)) >= 2

    def _additions(self, used: Sequence[int]) -> dict[str, tuple[LearnedExample, ...]]:
        """Returns the new examples by agent, the latest first, without texts that are nearly equal to one of the agent's."""
        by_agent: defaultdict[str, list[int]] = defaultdict(list)
        for index in sorted(used, key=lambda index: (-self.labelled[index].at, index)):
            by_agent[self.labelled[index].expected or self._default].append(index)
        found = {}
        for agent, indices in sorted(by_agent.items()):
            own = self._encoded(examples_of(self.cascade.tree.card(agent)))
            new: list[int] = []
            for index in indices:
                known = [*own, *(self.vectors[other] for other in new)]
                if len(new) < MOST_LEARNED and all(float(self.vectors[index] @ vector) <= NEARLY_EQUAL for vector in known):
                    new.append(index)
            if new:
                found[agent] = tuple(_learned(self.labelled[index]) for index in new)
        return found

    def _drops(self, which: Sequence[int]) -> dict[str, tuple[str, ...]]:
        """Returns examples that attract messages of other agents, and none of their own."""
        found = {}
        for agent in sorted({self.labelled[index].chosen or "" for index in which}):
            examples = examples_of(self.cascade.tree.card(agent)) if agent in self.cascade.tree else ()
            if len(examples) <= _KEPT_LEAST:
                continue
            own, right, wrong = self._encoded(examples), defaultdict[int, float](float), defaultdict[int, float](float)
            for index in which:
                each = self.labelled[index]
                if each.chosen == agent and each.opens:
                    nearest = int((own @ self.vectors[index]).argmax())
                    (right if each.is_right else wrong)[nearest] += self.trust.belief(index)
            worst = sorted(wrong, key=lambda place: (-wrong[place], place))
            bad = [place for place in worst if wrong[place] >= _DROP_LEAST and right[place] < _RIGHT_MOST]
            bad = bad[: len(examples) - _KEPT_LEAST]
            if bad:
                found[agent] = tuple(examples[place] for place in bad)
        return found

    def _encoded(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        import numpy as np

        if not texts or self.cascade.meaning is None:
            return np.zeros((0, self.vectors.shape[1]), dtype=np.float32)
        return encode_checked(list(texts), self.cascade.meaning.encoder)


def _learned(each: Labelled) -> LearnedExample:
    if not each.sequence:
        return LearnedExample(text=each.text.strip())
    return LearnedExample(text=each.text.strip(), user=each.user, session=each.session, sequence=each.sequence)


def _is_personal(text: str) -> bool:
    return any(True for _ in find(text.encode("utf-8", "replace"), KINDS))
