"""Decisions with the label that counts."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from turnwise.facts.labels import LabelledDecision
from turnwise.facts.sessions import SessionKey
from turnwise.learning.traffic import effective

ASKED = "(asks the user)"
"""Stands for a question to the user in place of an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A decision with the label that counts."""

    key: SessionKey
    sequence: int
    chosen: str | None
    """The agent that was chosen; None for a question to the user."""
    expected: str
    """The agent that should have been chosen; the default agent for nobody."""
    method: str
    confidence: float
    at: datetime
    is_random: bool
    """Whether it was picked at random."""
    probability: float | None
    """The probability with which it was picked; None means unknown."""

    @property
    def is_right(self) -> bool:
        return self.chosen == self.expected


def judged_decisions(labels: Iterable[LabelledDecision], default: str) -> dict[tuple[SessionKey, int], Judged]:
    """Returns the decisions with a label that counts: the operators' newest, else the heaviest, unless it is unsure.

    Args:
        labels: All labels.
        default: The default agent. It stands for the label that no agent should have been chosen.
    """
    by_decision: defaultdict[tuple[SessionKey, int], list[LabelledDecision]] = defaultdict(list)
    for each in labels:
        by_decision[each.key, each.sequence].append(each)
    found = {}
    for place, all_ in by_decision.items():
        label = effective([each.label for each in all_])
        if label is not None:
            decision = all_[0]
            found[place] = Judged(
                key=decision.key,
                sequence=decision.sequence,
                chosen=decision.agent if decision.outcome == "chosen" else None,
                expected=label.agent or default,
                method=decision.method,
                confidence=decision.confidence,
                at=decision.decided_at,
                is_random=label.picked == "random",
                probability=label.probability,
            )
    return found
