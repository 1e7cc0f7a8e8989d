"""A turn as the contextual model sees it: the candidates, and each text's scores for them. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.matching.match import Match
from turnwise.selection.contextual.belief import FLOOR, MessageEvidence, TrackingWeights, switch_features, update_belief
from turnwise.selection.contextual.wording import MessageWording, ReplyWording
from turnwise.selection.meaning import TextReading

Floats = NDArray[np.float64]

MAX_BY_MESSAGE = 8
"""Maximum number of candidates from the message's own ranking; other sources add fewer."""
_MAX_BY_OTHER_TEXT, _MAX_VISITED, _MAX_PREVIOUS, _MAX_MARKED = 3, 6, 3, 8
_ALIKE = 0.45
MAX_CANDIDATES = 32


class EarlierMessage(NamedTuple):
    """An earlier message of the user."""

    reading: TextReading
    wording: MessageWording
    agent: str | None = None
    """The agent that answered; None = unknown, or it may not continue."""
    reply_wording: ReplyWording = ReplyWording()
    """The ending of the reply before it."""
    joined: TextReading | None = None
    """The reply before it, joined with the message; None = no reply."""


class Clause(NamedTuple):
    """A clause of the message."""

    reading: TextReading
    asks: bool
    """Has a request's words."""


class LeftMatter(NamedTuple):
    """A matter that was left with another agent."""

    agent: str
    said: ReplyWording
    """The wording of the agent's last words in it."""
    reading: TextReading
    """The reading of those words."""
    joined: TextReading
    """The reading of those words joined with the message."""


@dataclass(frozen=True, slots=True)
class Turn:
    """All inputs of the decision about one message."""

    message: TextReading
    wording: MessageWording
    reply: TextReading | None = None
    """The last reply; None = no reply."""
    joined: TextReading | None = None
    """The reply's end joined with the message."""
    reply_wording: ReplyWording = field(default_factory=ReplyWording)
    """The ending of the last reply."""
    past: tuple[EarlierMessage, ...] = ()
    """Earlier messages, newest first."""
    active: str | None = None
    """The agent that has the conversation; None = no agent."""
    visited: tuple[str, ...] = ()
    """Other agents that spoke, most recent first."""
    previous: tuple[str, ...] = ()
    """Agents that helped before, according to the caller."""
    awaiting: str | None = None
    """The agent that waits for a reply."""
    offered: tuple[str, ...] = ()
    """Agents that the user was just asked to choose from."""
    hits: Mapping[str, float] = field(default_factory=dict)
    """Confidence of matching patterns, by agent."""
    named: Mapping[str, float] = field(default_factory=dict)
    """Share of each agent's name that the message contains."""
    general: str | None = None
    """The agent for small talk."""
    noted: Mapping[str, str] = field(default_factory=dict)
    """The kind of thing that the message names and the agent noted before, by agent."""
    clauses: tuple[Clause, ...] = ()
    """The message's clauses; empty when it has only one."""
    matters: tuple[LeftMatter, ...] = ()
    """Matters that were left with other agents, the latest first."""


class ClauseScores(NamedTuple):
    """A clause's log-probabilities."""

    scores: Floats
    asks: bool
    """Has a request's words."""


class MatterScores(NamedTuple):
    """How an open matter relates to the message."""

    place: int
    """Index of the agent that was left with it."""
    said: ReplyWording
    joined: Floats
    """Log-probabilities of its last words joined with the message."""
    echo: float
    """Cosine similarity of its last words and the message."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A turn with its candidates in a fixed order. Arrays have one entry per candidate."""

    turn: Turn
    candidates: tuple[str, ...]
    message: Floats
    """Log-probabilities of the message."""
    reply: Floats | None
    """Log-probabilities of the last reply; None = no reply."""
    joined: Floats | None
    """Log-probabilities of the reply joined with the message; None = no reply."""
    past: tuple[Floats, ...]
    """Log-probabilities of the earlier messages, newest first."""
    prior: Floats
    """Log-probability that the topic belongs to each agent, before this message."""
    belief: Floats
    """The same after this message. Neither depends on the agents chosen so far, except at the oldest message."""
    similarities: Floats
    """Cosine similarities of the message."""
    reply_similarities: Floats | None
    """Cosine similarities of the last reply; None = no reply."""
    entropy: float
    """Normalized entropy, 0 to 1, of the message's probabilities over all eligible agents."""
    best: float
    """Highest of those probabilities."""
    agents: int
    """Number of eligible agents that have phrases."""
    rest: float
    """Total probability of the agents that are not candidates."""
    echo: float
    """Cosine similarity of the message and the last reply; 0 without a reply."""
    clauses: tuple[ClauseScores, ...] = ()
    """The message's clauses."""
    matters: tuple[MatterScores, ...] = ()
    """Open matters of candidates, the latest first."""

    def place(self, agent: str | None) -> int | None:
        """Returns the agent's index among the candidates; None when it is not one."""
        return _place(agent, self.candidates)

    def marks(self, agents: Collection[str]) -> Floats:
        """Returns 1 for each candidate in `agents`, else 0."""
        return np.array([float(name in agents) for name in self.candidates])

    def amounts(self, of: Mapping[str, float]) -> Floats:
        """Returns each candidate's value in `of`, 0 where it has none."""
        return np.array([of.get(name, 0.0) for name in self.candidates])


class Roster:
    """Maps the eligible agents to a matcher's labels. Built once for each pair; immutable."""

    def __init__(self, labels: tuple[str, ...], eligible: Sequence[str]) -> None:
        self.labels, self.eligible = labels, eligible
        known = {label: place for place, label in enumerate(labels)}
        self._places = {name: known.get(name, -1) for name in eligible}
        self._allowed = np.zeros(len(labels), bool)
        self._allowed[[place for place in self._places.values() if place >= 0]] = True
        self._all = bool(self._allowed.all())
        self.agents = int(self._allowed.sum())

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def shares(self, matches: Sequence[Match]) -> Floats:
        """Returns one row per match: probabilities over the labels, renormalized over the eligible agents."""
        found = np.array([match.probabilities for match in matches])
        if self._all:
            return found
        found = np.where(self._allowed, found, 0.0)
        totals = found.sum(axis=1, keepdims=True)
        return np.where(totals > 0.0, found / np.maximum(totals, 1e-300), self._allowed / max(self.agents, 1))

    def highest(self, match: Match) -> tuple[float, float]:
        """Returns the highest probability and the highest cosine similarity of any eligible agent; 0 without one."""
        if self._all:
            return float(match.probabilities.max(initial=0.0)), float(match.similarities.max(initial=0.0))
        shares = match.probabilities[self._allowed]
        best = float(shares.max(initial=0.0)) / max(float(shares.sum()), 1e-300)
        return best, float(match.similarities[self._allowed].max(initial=0.0))

    def best(self, shares: Floats, count: int) -> list[list[str]]:
        """Returns, for each row, the names of the `count` largest values, largest first. Ties keep the matcher's order."""
        if shares.shape[1] > 8 * count:
            top = np.sort(np.argpartition(-shares, count, axis=1)[:, : count + 1], axis=1)
            rows = np.arange(len(shares))[:, None]
            first = np.argsort(-shares[rows, top], axis=1, kind="stable")
            order = top[rows, first][:, :count]
        else:
            order = np.argsort(-shares, axis=1, kind="stable")[:, :count]
        return [[self.labels[place] for place in row if self._allowed[place]] for row in order.tolist()]

    def places(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Returns each name's index among the labels; -1 without a label."""
        return np.array([self._places.get(name, -1) for name in names], dtype=np.intp)


def build_situation(turn: Turn, roster: Roster, tracking: TrackingWeights) -> Situation:
    """Builds the situation: selects the candidates and gathers each text's scores for them."""
    texts = _texts(turn, roster)
    shares = roster.shares([text.match for text in texts])
    candidates = _candidates(turn, roster, shares)
    places = roster.places(candidates)
    known = places >= 0
    probabilities = shares[:, places] * known if shares.shape[1] else np.zeros((len(texts), len(places)))
    logs = np.log(np.maximum(probabilities, FLOOR))
    lines = iter(logs)
    message, reply, joined = next(lines), next(lines) if turn.reply else None, next(lines) if turn.joined else None
    past = [(next(lines), next(lines) if each.joined else None) for each in turn.past]
    evidence = [MessageEvidence(message, joined, _topic_cues(turn.message, turn.wording, turn.reply_wording, roster))]
    for each, (alone, both) in zip(turn.past, past, strict=True):
        found = _topic_cues(each.reading, each.wording, each.reply_wording, roster)
        evidence.append(MessageEvidence(alone, both, found, _place(each.agent, candidates)))
    clauses = tuple(ClauseScores(next(lines), each.asks) for each in turn.clauses)
    matters = tuple(_matter_scores(turn, each, next(lines), candidates) for each in turn.matters if each.agent in roster)
    prior, belief = update_belief(evidence[::-1], tracking)
    similarities = [text.match.similarities for text in texts[: 2 if turn.reply else 1]]
    cosines = np.array(similarities)[:, places] * known if shares.shape[1] else np.zeros((len(similarities), len(places)))
    return Situation(
        turn=turn,
        candidates=candidates,
        message=message,
        reply=reply,
        joined=joined,
        past=tuple(alone for alone, _ in past),
        prior=prior,
        belief=belief,
        similarities=cosines[0],
        reply_similarities=cosines[1] if turn.reply else None,
        entropy=_entropy(shares[0]),
        best=float(shares[0].max(initial=0.0)),
        agents=roster.agents,
        rest=max(0.0, 1.0 - float(probabilities[0].sum())),
        echo=float(turn.message.vector @ turn.reply.vector) if turn.reply else 0.0,
        clauses=clauses,
        matters=matters,
    )


def _matter_scores(turn: Turn, matter: LeftMatter, joined: Floats, candidates: Sequence[str]) -> MatterScores:
    echo = float(turn.message.vector @ matter.reading.vector)
    return MatterScores(candidates.index(matter.agent), matter.said, joined, echo)


def _topic_cues(reading: TextReading, words: MessageWording, said: ReplyWording, roster: Roster) -> Mapping[str, float]:
    best, near = roster.highest(reading.match)
    return switch_features(words, said, smalltalk=reading.smalltalk, best=best, near=near)


def _place(agent: str | None, candidates: Sequence[str]) -> int | None:
    return candidates.index(agent) if agent is not None and agent in candidates else None


def _texts(turn: Turn, roster: Roster) -> list[TextReading]:
    """Returns the message, the reply before it and both joined; the same for earlier messages, without their replies; then the
    message's clauses, and the open matters joined with the message.
    """
    found = [turn.message, turn.reply, turn.joined]
    for past in turn.past:
        found += [past.reading, past.joined]
    found += [each.reading for each in turn.clauses]
    found += [each.joined for each in turn.matters if each.agent in roster]
    return [text for text in found if text is not None]


def _candidates(turn: Turn, roster: Roster, shares: Floats) -> tuple[str, ...]:
    """Returns the agents to score, at most MAX_CANDIDATES: those of the conversation first, then the best by meaning."""
    named = sorted(turn.named, key=lambda name: (-turn.named[name], name))[:_MAX_MARKED]
    matched = sorted(turn.hits, key=lambda name: (-turn.hits[name], name))[:_MAX_MARKED]
    ranked = roster.best(shares, MAX_BY_MESSAGE)
    claims: list[str | None] = [turn.active, *ranked[0], turn.awaiting, *matched, *named]
    claims += [
        *(each.agent for each in turn.matters),
        *turn.visited[:_MAX_VISITED],
        *turn.previous[-_MAX_PREVIOUS:],
        *turn.offered[:_MAX_MARKED],
        *turn.noted,
        turn.general,
    ]
    for row in ranked[1:]:
        claims += row[:_MAX_BY_OTHER_TEXT]
    return tuple(dict.fromkeys(name for name in claims if name is not None and name in roster))[:MAX_CANDIDATES]


def _entropy(shares: Floats) -> float:
    certain = shares[shares > FLOOR]
    return float(-(certain @ np.log(certain))) / math.log(max(len(shares), 2))


def is_empty(situation: Situation) -> bool:
    """Returns whether the message has no content and starts a conversation, such as a bare "yes" or a number.

    False when an agent's phrases are similar to it.
    """
    turn = situation.turn
    known = (
        turn.active or turn.awaiting or turn.visited or turn.previous or turn.offered or turn.hits or turn.named or turn.noted
    )
    return turn.wording.empty and not known and float(situation.similarities.max(initial=0.0)) < _ALIKE
