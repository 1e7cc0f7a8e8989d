"""One decision beside what it should have been."""

from typing import NamedTuple

from turnwise.facts.selections import Candidate, Selection
from turnwise.selection.several import SEVERAL


class Outcome(NamedTuple):
    """A decision on a case.

    expected: who should take the message, None = nobody. agent: who got it. chosen: the same, None when that means nobody:
    the default agent, or a question which it is. ranked: the agents with their scores, 0 to 1, the likeliest first, the
    default agent aside; the chosen one leads with the decision's confidence. novelty: 0 to 1, how likely nobody should take
    it. ms: how long the decision took. dialogue: the conversation's id, None for a single message; turn: its place there,
    from 0. scored: False for a turn of which nobody knows who should take it.
    """

    text: str
    expected: str | None
    agent: str
    chosen: str | None
    ranked: tuple[tuple[str, float], ...] = ()
    novelty: float = 0.0
    method: str = ""
    ms: float = 0.0
    dialogue: str | None = None
    turn: int = 0
    scored: bool = True
    reason: str = ""

    @property
    def right(self) -> bool:
        """Whether the message went to whom it should."""
        return self.chosen == self.expected

    @property
    def best(self) -> str | None:
        """The agent with the best score: the chosen one, else the likeliest; None when none has a score."""
        return self.ranked[0][0] if self.ranked else None

    @property
    def confidence(self) -> float:
        """The confidence that is reported for the best."""
        return self.ranked[0][1] if self.ranked else 0.0


def chosen_of(selection: Selection, default: str) -> str | None:
    """Who was chosen; None when it was the default agent, or the user is asked. Of several who are asked, the first."""
    agent = selection.verdicts[-1].agent if selection.method == SEVERAL and selection.verdicts else selection.agent
    return None if selection.outcome == "clarify" or agent == default else agent


def ranking_of(selection: Selection, default: str) -> tuple[tuple[str, float], ...]:
    """All agents that a verdict scored, the likeliest first.

    The chosen one leads; then those of the verdict that decided; then those of the others, the verdict asked last before
    those asked earlier, since a stage that leaves the decision to the next knew less.
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


def _best_first(candidates: tuple[Candidate, ...]) -> list[Candidate]:
    return sorted(candidates, key=lambda candidate: -candidate.score)


def novelty_of(selection: Selection, default: str) -> float:
    """How likely it is that nobody should take it: what the last verdict that knows says, and small talk that the default agent
    takes besides; without one, what the best score leaves over."""
    said = [verdict.novelty for verdict in selection.verdicts if verdict.novelty is not None]
    if said:
        chats = selection.method == "smalltalk" and selection.agent == default
        return min(said[-1] + selection.confidence, 1.0) if chats else said[-1]
    ranked = ranking_of(selection, default)
    return 1.0 - ranked[0][1] if ranked else 1.0
