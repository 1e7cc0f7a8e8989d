"""Selects by semantic similarity between the message and agents' phrases (behaviour C5)."""

from typing import Literal, NamedTuple

from turnwise.facts.errors import PolicyError
from turnwise.facts.selections import Candidate, Verdict
from turnwise.facts.tree import AgentTree
from turnwise.matching.match import Match
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.meaning import Meaning
from turnwise.selection.reader import unread
from turnwise.selection.verdicts import MAX_RECORDED, abstained, chosen, shortened, with_corrections

THRESHOLD = 0.5
TOP = 3
_ROUNDING = 1e-9

Score = Literal["similarity", "probability"]


class _Scored(NamedTuple):
    agent: str
    score: float
    similarity: float


class Semantic:
    """Chooses the eligible agent with the best score, if it is above `threshold`.

    Args:
        meaning: Reads the message.
        threshold: The score must be above this.
        top: Number of best agents considered. Those with at least the threshold are recorded as candidates.
        margin: Minimum lead over the second; None = no minimum.
        novelty: Abstain above this probability that the message is out of scope; None = never.
        score: The score and confidence to use. `similarity`: with the agent's nearest phrase. `probability`: of this agent,
            given that the message is for any.
        name: The stage's name.
    """

    def __init__(
        self,
        meaning: Meaning,
        *,
        threshold: float = THRESHOLD,
        top: int = TOP,
        margin: float | None = None,
        novelty: float | None = None,
        score: Score = "similarity",
        name: str = "semantic",
    ) -> None:
        if top < 1:
            raise PolicyError(f"The selector {name!r} has `top` {top}.", fix="Set `top` to 1 or more.")
        self.name = name
        self._meaning = meaning
        self._threshold, self._top, self._margin, self._novelty, self._score = threshold, top, margin, novelty, score

    async def select(self, request: SelectionRequest) -> Verdict:
        """Chooses the agent with the most similar phrases; abstains on doubt, without text, or in an unknown language."""
        if request.occasion == "answer":
            return abstained(self.name, "Meaning is read from messages, not from answers.")
        if not request.text.strip():
            return abstained(self.name, "The message has no text.")
        language = self._meaning.languages.unknown(request.text)
        if language is not None:
            return abstained(self.name, f"It compares nothing: {unread(language)}.")
        reading = await self._meaning.read_message(request.text)
        return with_corrections(
            self._verdict_for(reading.match.among(frozenset(request.eligible))), reading.corrected.corrections
        )

    def _verdict_for(self, match: Match) -> Verdict:
        """Returns the verdict for one match, of eligible agents only."""
        ranked = self._ranked(match)
        if not ranked:
            return abstained(self.name, "No agent that may be chosen has anything to go by.")
        candidates = tuple(_candidate(one, match) for one in ranked[: self._top] if one.score >= self._threshold)[:MAX_RECORDED]
        best = ranked[0]
        confidence = min(max(best.score, 0.0), 1.0)
        doubt = self._doubt(ranked, match)
        if doubt:
            return abstained(self.name, doubt, confidence=confidence, candidates=candidates)
        return chosen(
            self.name,
            best.agent,
            method="semantic_match",
            confidence=confidence,
            reason=f"The message means what {best.agent} is for: {_evidence(best, match)}.",
            candidates=candidates,
        )

    def _ranked(self, match: Match) -> list[_Scored]:
        """Returns the options, best first; ties stay in the tree's order."""
        scores = match.similarities if self._score == "similarity" else match.probabilities
        order = (-scores).argsort(kind="stable")[: max(self._top, 2)]
        return [_Scored(match.labels[place], float(scores[place]), float(match.similarities[place])) for place in order]

    def _doubt(self, ranked: list[_Scored], match: Match) -> str:
        """Returns why the best is not chosen; empty when it is."""
        best = ranked[0]
        if best.score <= self._threshold:
            return f"The best match is {best.agent} with {best.score:.2f}, not above {self._threshold:g}."
        if self._novelty is not None and match.novelty > self._novelty:
            return f"Nobody seems to be for this: {match.novelty:.2f}, above {self._novelty:g}; the best is {best.agent}."
        if self._margin is not None and len(ranked) > 1 and best.score - ranked[1].score + _ROUNDING < self._margin:
            second = ranked[1]
            return f"{best.agent} ({best.score:.2f}) and {second.agent} ({second.score:.2f}) are too close to tell."
        return ""


def _candidate(one: _Scored, match: Match) -> Candidate:
    return Candidate(agent=one.agent, score=min(max(one.score, 0.0), 1.0), evidence=_evidence(one, match))


def _evidence(one: _Scored, match: Match) -> str:
    """Returns the agent's nearest example, or the similarity. Learned examples are not quoted."""
    for near in match.nearest:
        if near.label == one.agent:
            if near.private:
                return f"nearest learned example {near.similarity:.2f}"
            return f'nearest example "{shortened(near.text)}" {near.similarity:.2f}'
    return f"similarity {one.similarity:.2f}"


def has_words(tree: AgentTree, default: str | None = None) -> bool:
    """Returns whether any agent has examples, skills or a description. A name alone does not count.

    For the default agent (None = the root) and supervisors only examples count.
    """
    parents = {card.parent for card in tree if card.parent}
    quiet = {default or tree.root, *(name for name in parents if not tree.card(name).is_composite)}
    return any(
        card.examples
        or card.learned
        or any(skill.examples for skill in card.skills)
        or (card.name not in quiet and (card.skills or card.description.strip()))
        for card in tree
    )


class NoTextSelector:
    """Always abstains, and needs no encoder. It replaces a meaning stage when no agent has text.

    Args:
        name: The stage's name.
        named_agents: Agents named in the stage's configuration.
    """

    def __init__(self, name: str, named_agents: tuple[str, ...] = ()) -> None:
        self.name = name
        self.named_agents = named_agents

    async def select(self, request: SelectionRequest) -> Verdict:
        return abstained(self.name, "No agent has examples, skills or a description to go by.")


CONFIDENCE = 0.7


class SmallTalkSelector:
    """Chooses `agent` when the probability of small talk is above `threshold`.

    It judges the whole message: a greeting followed by a request is not small talk. The confidence is always 0.7 (C6).

    Args:
        meaning: Reads the message.
        agent: None = the asking team's lead, or the tree's root.
        threshold: The probability must be above this.
        name: The stage's name.
    """

    def __init__(
        self, meaning: Meaning, *, agent: str | None = None, threshold: float = THRESHOLD, name: str = "smalltalk"
    ) -> None:
        self.name = name
        self._meaning, self._agent, self._threshold = meaning, agent, threshold

    @property
    def named_agents(self) -> tuple[str, ...]:
        """Agents named in the configuration."""
        return () if self._agent is None else (self._agent,)

    async def select(self, request: SelectionRequest) -> Verdict:
        """Chooses the general agent for small talk; abstains for requests."""
        if request.occasion == "answer":
            return abstained(self.name, "Small talk is looked for in messages, not in answers.")
        if not request.text.strip():
            return abstained(self.name, "The message has no text.")
        agent = self._agent or request.lead or request.tree.root
        if agent not in request.eligible:
            return abstained(self.name, f"{agent}, who would answer small talk, may not be chosen here.")
        language = self._meaning.languages.unknown(request.text)
        if language is not None:
            return abstained(self.name, f"It cannot tell: {unread(language)}.")
        (reading,) = await self._meaning.read([request.text])
        if reading.smalltalk <= self._threshold:
            return abstained(
                self.name,
                f"The message reads as a request: small talk with probability {reading.smalltalk:.2f}, "
                f"not above {self._threshold:g}.",
            )
        return chosen(
            self.name,
            agent,
            method="conversational_fallback",
            confidence=CONFIDENCE,
            reason=f"The message is small talk with probability {reading.smalltalk:.2f}, so {agent} answers.",
        )
