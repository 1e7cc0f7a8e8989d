"""Decisions with the label that counts."""

from dataclasses import dataclass

from turnwise.learning.traffic import effective
from turnwise.ports.decisions import Decision

ASKED = "(asks the user)"
"""Stands for a question to the user in place of an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A decision as the label that counts judges it."""

    chosen: str | None
    """The agent that was chosen; None for a question to the user."""
    expected: str
    """The agent that should have been chosen; the default agent for nobody."""
    confidence: float
    is_random: bool
    """Whether it was picked at random."""
    probability: float | None
    """The probability with which it was picked; None means unknown."""

    @property
    def is_right(self) -> bool:
        return self.chosen == self.expected


def judged(decision: Decision, default: str) -> Judged | None:
    """Returns the decision with the label that counts: the operators' newest, else the heaviest; None without one.

    A label whose author is unsure does not count.

    Args:
        decision: The decision, with its labels.
        default: The default agent. It stands for the label that no agent should have been chosen.
    """
    label = effective(decision.labels) if decision.labels else None
    if label is None:
        return None
    return Judged(
        chosen=decision.selection.agent if decision.selection.outcome == "chosen" else None,
        expected=label.agent or default,
        confidence=decision.selection.confidence,
        is_random=label.picked == "random",
        probability=label.probability,
    )
