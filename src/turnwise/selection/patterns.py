"""Selects by regular-expression patterns on agents' cards (behaviours C3, C4)."""

from collections.abc import Mapping
from typing import Literal

from turnwise.facts.selections import Candidate, Verdict
from turnwise.facts.tree import AgentTree
from turnwise.matching.patterns import MATCHED_CHARACTERS, Hit, PatternIndex
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.contextual.wording import read_reply
from turnwise.selection.resume import conversation_state, open_question
from turnwise.selection.verdicts import MAX_RECORDED, abstained, chosen, shortened

THRESHOLD = 0.7
PLAINLY_NEW = 0.9
"""A pattern with more confidence than this marks a new request, even after a question from an agent or a clarification."""
_ROUNDING = 1e-9

Yields = Literal["waits", "asks"]


def pattern_index(tree: AgentTree, before: PatternIndex | None = None) -> PatternIndex:
    """Returns an index of all agents' active patterns, labelled by agent name, in the tree's order.

    Args:
        tree: The agents.
        before: An index of earlier agents. Returned itself if its patterns are the same; else what did not change is shared.

    Raises PatternError for the first invalid pattern.
    """
    patterns = [(card.name, pattern.regex, pattern.confidence) for card in tree for pattern in card.patterns if pattern.active]
    return before if before is not None and before.holds(patterns) else PatternIndex(patterns, before)


def pattern_labels(tree: AgentTree) -> dict[tuple[str, str], str]:
    """Returns the descriptions of patterns, by (agent, expression), for patterns that have one."""
    return {(card.name, pattern.regex): pattern.label for card in tree for pattern in card.patterns if pattern.label}


class Patterns:
    """Chooses the only eligible agent with a pattern that matches the message.

    The agent's score is the highest confidence among its matching patterns; it must be above the threshold.

    Args:
        index: The patterns of all agents.
        threshold: The score must be above this.
        margin: Minimum lead over the second when several agents match; None = abstain when several match.
        labels: Descriptions of patterns for the record.
        yields: Protects an agent's question from another agent's pattern (behaviour C9). `waits`: abstain while an agent
            waits for a reply. `asks`: also when the active agent's last reply was a question.
        name: The stage's name.
    """

    def __init__(
        self,
        index: PatternIndex,
        *,
        threshold: float = THRESHOLD,
        margin: float | None = None,
        labels: Mapping[tuple[str, str], str] | None = None,
        yields: Yields | None = None,
        name: str = "patterns",
    ) -> None:
        self.name = name
        self._index = index
        self._threshold = threshold
        self._margin = margin
        self._labels = labels or {}
        self._yields = yields

    async def select(self, request: SelectionRequest) -> Verdict:
        """Chooses the agent of the strongest matching pattern; abstains on a near tie, or for another agent's question."""
        if request.occasion == "answer":
            return abstained(self.name, "Patterns look at messages, not at answers.")
        hits = [hit for hit in self._index.match(request.text) if hit.label in request.eligible]
        if not hits:
            return abstained(self.name, "No agent's pattern matches.", ignored=_ignored_part(request.text))
        fields = {
            "candidates": tuple(self._candidate(hit) for hit in hits[:MAX_RECORDED]),
            "ignored": _ignored_part(request.text),
        }
        best = hits[0]
        doubt = self._doubt(hits) or self._other_question(request, best.label)
        if doubt:
            return abstained(self.name, doubt, confidence=best.confidence, **fields)
        return chosen(
            self.name,
            best.label,
            method="strong_intent_match",
            confidence=best.confidence,
            reason=f"The message matches a pattern of {best.label} ({self._display(best)}){_lead(hits)}.",
            **fields,
        )

    def _doubt(self, hits: list[Hit]) -> str:
        """Returns why the best match is not chosen; empty when it is."""
        best = hits[0]
        if best.confidence <= self._threshold:
            return f"The best match is {best.label} with {best.confidence:g}, not above {self._threshold:g}."
        if len(hits) == 1:
            return ""
        second = hits[1]
        if self._margin is None:
            return f"Patterns of {len(hits)} agents match, {best.label} and {second.label} first."
        if best.confidence - second.confidence + _ROUNDING < self._margin:
            return f"{best.label} ({best.confidence:g}) and {second.label} ({second.confidence:g}) are too close to tell."
        return ""

    def _other_question(self, request: SelectionRequest, agent: str) -> str:
        """Returns which other agent's question the message may answer, in words; empty when there is none."""
        question = open_question(request) if self._yields else None
        if question is not None and question.agent in request.eligible and question.agent != agent:
            return f"{question.agent} waits for a reply, which a pattern of {agent} alone does not take from it."
        active = conversation_state(request).active
        if self._yields == "asks" and active is not None and active != agent and read_reply(request.head.last_reply).question:
            return f"{active} has asked something, so a pattern of {agent} alone does not decide."
        return ""

    def _candidate(self, hit: Hit) -> Candidate:
        return Candidate(agent=hit.label, score=hit.confidence, evidence=f"pattern {self._display(hit)}")

    def _display(self, hit: Hit) -> str:
        """Returns the pattern's description, else its expression."""
        return shortened(self._labels.get((hit.label, hit.regex)) or hit.regex)


def _lead(hits: list[Hit]) -> str:
    return f", well ahead of {hits[1].label}" if len(hits) > 1 else " and of no other agent"


def _ignored_part(text: str) -> tuple[str, ...]:
    if len(text) <= MATCHED_CHARACTERS:
        return ()
    return (f"all but the first {MATCHED_CHARACTERS} characters of the message",)
