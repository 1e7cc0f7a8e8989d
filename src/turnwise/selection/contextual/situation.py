"""One turn as the contextual model sees it: the candidates, and what each text says of each of them. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.matching.match import Match
from turnwise.selection.contextual.belief import FLOOR, MessageEvidence, TrackingWeights, switch_features, update_belief
from turnwise.selection.contextual.wording import MessageWording, ReplyWording
from turnwise.selection.meaning import TextReading

Floats = NDArray[np.float64]

SCORED = 8
"""So many of the best by the message itself are candidates, and fewer by anything else."""
_BY_OTHER_TEXTS, _VISITED, _PREVIOUS, _MARKED = 3, 6, 3, 8
_ALIKE = 0.45
CANDIDATES = 32


class EarlierMessage(NamedTuple):
    """An earlier message of the user, how it was understood, and who answered it; None = nobody we know.

    said: how the reply before it ended; joined: that reply and the message as one text, None = there was no reply.
    """

    reading: TextReading
    wording: MessageWording
    agent: str | None = None
    said: ReplyWording = ReplyWording()
    joined: TextReading | None = None


class Turn(NamedTuple):
    """All that the decision about one message rests on.

    joined: the reply's end and the message as one text. past: newest first. active: who has the conversation, None = nobody.
    visited: who else spoke, most recent first. previous: agents that the caller says helped before. awaiting: who waits for a
    reply. offered: whom the user was just asked to choose from. hits: the confidence of agents' patterns that match. named:
    how much of agents' names the message holds. general: who takes small talk.
    """

    message: TextReading
    wording: MessageWording
    reply: TextReading | None = None
    joined: TextReading | None = None
    said: ReplyWording = ReplyWording()
    past: tuple[EarlierMessage, ...] = ()
    active: str | None = None
    visited: tuple[str, ...] = ()
    previous: tuple[str, ...] = ()
    awaiting: str | None = None
    offered: tuple[str, ...] = ()
    hits: Mapping[str, float] = {}
    named: Mapping[str, float] = {}
    general: str | None = None


class Situation(NamedTuple):
    """A turn over its candidates, in a fixed order; arrays have one place for each.

    message, reply, joined, past: log-probabilities for those texts. prior, belief: how likely, as logarithms, the matter was
    each agent's before this message, and is with it, whoever was chosen so far. similarities, reply_similarities: cosines.
    Over all who are eligible: entropy, of the message's probabilities, 0 to 1; best, the highest of them; agents, how many
    have something to go by; rest, the probability of all that are no candidates. echo: the cosine of message and reply; 0
    without a reply.
    """

    turn: Turn
    candidates: tuple[str, ...]
    message: Floats
    reply: Floats | None
    joined: Floats | None
    past: tuple[Floats, ...]
    prior: Floats
    belief: Floats
    similarities: Floats
    reply_similarities: Floats | None
    entropy: float
    best: float
    agents: int
    rest: float
    echo: float

    def place(self, agent: str | None) -> int | None:
        """Where the agent stands among the candidates."""
        return _place(agent, self.candidates)

    def marks(self, agents: Collection[str]) -> Floats:
        """1 for each candidate that is one of these."""
        return np.array([float(name in agents) for name in self.candidates])

    def amounts(self, of: Mapping[str, float]) -> Floats:
        """The amount of each candidate, 0 where there is none."""
        return np.array([of.get(name, 0.0) for name in self.candidates])


class Roster:
    """Who may be chosen, against the labels of a matcher. Made once for both; immutable."""

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
        """One row a match: the probabilities over the labels, 0 for who may not be chosen, of sum 1 if anybody may."""
        found = np.stack([match.probabilities for match in matches])
        if self._all:
            return found
        found = np.where(self._allowed, found, 0.0)
        totals = found.sum(axis=1, keepdims=True)
        return np.where(totals > 0.0, found / np.maximum(totals, 1e-300), self._allowed / max(self.agents, 1))

    def highest(self, match: Match) -> tuple[float, float]:
        """The highest share and the highest cosine of anybody who may be chosen; 0 when nobody may."""
        if self._all:
            return float(match.probabilities.max(initial=0.0)), float(match.similarities.max(initial=0.0))
        shares = match.probabilities[self._allowed]
        best = float(shares.max(initial=0.0)) / max(float(shares.sum()), 1e-300)
        return best, float(match.similarities[self._allowed].max(initial=0.0))

    def best(self, shares: Floats, count: int) -> list[list[str]]:
        """For each row the names of the `count` largest shares, largest first, equal ones in the matcher's order."""
        if shares.shape[1] > 8 * count:
            kept = np.sort(np.argpartition(-shares, count, axis=1)[:, : count + 1], axis=1)
            first = np.argsort(-np.take_along_axis(shares, kept, axis=1), axis=1, kind="stable")
            order = np.take_along_axis(kept, first, axis=1)[:, :count]
        else:
            order = np.argsort(-shares, axis=1, kind="stable")[:, :count]
        return [[self.labels[place] for place in row if self._allowed[place]] for row in order.tolist()]

    def places(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Where these stand among the labels; -1 for those without a label."""
        return np.array([self._places.get(name, -1) for name in names], dtype=np.intp)


def build_situation(turn: Turn, roster: Roster, tracking: TrackingWeights) -> Situation:
    """The turn over its candidates: who scores well for any of its texts, or has any other claim."""
    texts = _texts(turn)
    shares = roster.shares([text.match for text in texts])
    candidates = _candidates(turn, roster, shares)
    places = roster.places(candidates)
    known = places >= 0
    kept = shares[:, places] * known if shares.shape[1] else np.zeros((len(texts), len(places)))
    logs = np.log(np.maximum(kept, FLOOR))
    lines = iter(logs)
    message, reply, joined = next(lines), next(lines) if turn.reply else None, next(lines) if turn.joined else None
    past = [(next(lines), next(lines) if each.joined else None) for each in turn.past]
    heard = [MessageEvidence(message, joined, _cues(turn.message, turn.wording, turn.said, roster))]
    for each, (alone, both) in zip(turn.past, past, strict=True):
        found = _cues(each.reading, each.wording, each.said, roster)
        heard.append(MessageEvidence(alone, both, found, _place(each.agent, candidates)))
    prior, belief = update_belief(heard[::-1], tracking)
    similarities = [text.match.similarities for text in texts[: 2 if turn.reply else 1]]
    cosines = np.stack(similarities)[:, places] * known if shares.shape[1] else np.zeros((len(similarities), len(places)))
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
        rest=max(0.0, 1.0 - float(kept[0].sum())),
        echo=float(turn.message.vector @ turn.reply.vector) if turn.reply else 0.0,
    )


def _cues(reading: TextReading, words: MessageWording, said: ReplyWording, roster: Roster) -> Mapping[str, float]:
    best, near = roster.highest(reading.match)
    return switch_features(words, said, smalltalk=reading.smalltalk, best=best, near=near)


def _place(agent: str | None, candidates: Sequence[str]) -> int | None:
    return candidates.index(agent) if agent is not None and agent in candidates else None


def _texts(turn: Turn) -> list[TextReading]:
    """The message, what was said before it, both as one; then the earlier messages, each with what was said before it."""
    found = [turn.message, turn.reply, turn.joined]
    for past in turn.past:
        found += [past.reading, past.joined]
    return [text for text in found if text is not None]


def _candidates(turn: Turn, roster: Roster, shares: Floats) -> tuple[str, ...]:
    named = sorted(turn.named, key=lambda name: (-turn.named[name], name))[:_MARKED]
    hit = sorted(turn.hits, key=lambda name: (-turn.hits[name], name))[:_MARKED]
    ranked = roster.best(shares, SCORED)
    claims: list[str | None] = [turn.active, *ranked[0], turn.awaiting, *hit, *named]
    claims += [*turn.visited[:_VISITED], *turn.previous[-_PREVIOUS:], *turn.offered[:_MARKED], turn.general]
    for row in ranked[1:]:
        claims += row[:_BY_OTHER_TEXTS]
    return tuple(dict.fromkeys(name for name in claims if name is not None and name in roster))[:CANDIDATES]


def _entropy(shares: Floats) -> float:
    certain = shares[shares > FLOOR]
    return float(-(certain @ np.log(certain))) / math.log(max(len(shares), 2))


def is_empty(situation: Situation) -> bool:
    """Whether the message names nothing and opens a conversation: a bare "yes" or number is nobody's then, unless somebody's
    phrases are like it.
    """
    turn = situation.turn
    known = turn.active or turn.awaiting or turn.visited or turn.previous or turn.offered or turn.hits or turn.named
    return turn.wording.empty and not known and float(situation.similarities.max(initial=0.0)) < _ALIKE
