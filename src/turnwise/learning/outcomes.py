"""Outcomes: decisions compared with the expected agent."""

from collections.abc import Mapping
from typing import NamedTuple

from turnwise.facts.selections import Candidate, Selection
from turnwise.selection.policy import SEVERAL


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


def _best_first(candidates: tuple[Candidate, ...]) -> list[Candidate]:
    return sorted(candidates, key=lambda candidate: -candidate.score)


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
