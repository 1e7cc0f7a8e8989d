"""A turn as the contextual model sees it: its inputs from a request, the candidates, and each text's scores for them. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.facts.sessions import RECENT_CHARACTERS, Exchange, OpenMatter
from turnwise.matching.match import Match
from turnwise.matching.text_features import text_features
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.contextual.belief import FLOOR, MessageEvidence, TrackingWeights, switch_features, update_belief
from turnwise.selection.contextual.wording import MessageWording, ReplyWording, clauses_of, read_message, read_reply
from turnwise.selection.meaning import TextReading
from turnwise.selection.resume import ConversationState, continuing_agent

Floats = NDArray[np.float64]

MAX_BY_MESSAGE = 8
"""Maximum number of candidates from the message's own ranking; other sources add fewer."""
_MAX_BY_OTHER_TEXT, _MAX_VISITED, _MAX_PREVIOUS, _MAX_MARKED = 3, 6, 3, 8
_ALIKE = 0.45
MAX_CANDIDATES = 32

READ_MATTERS = 3
"""How many open matters are read, the latest ones."""


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
    without_phrases: frozenset[str] = frozenset()
    """The candidates that no text can be compared with."""

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
        without_phrases=frozenset(name for name, is_known in zip(candidates, known.tolist(), strict=True) if not is_known),
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


def user_messages(request: SelectionRequest) -> list[str]:
    """Returns the user's messages to read, without duplicates: the current one and earlier ones."""
    texts = [request.text, *(each.message for each in _earlier(request))]
    return [text for text in dict.fromkeys(texts) if text.strip()]


def context_texts(request: SelectionRequest) -> list[str]:
    """Returns the other texts to read, without duplicates: the last reply, and each message joined with the reply before it."""
    reply = request.head.last_reply
    texts = [reply, joined_text(reply, request.text), *(joined_text(each.before, each.message) for each in _earlier(request))]
    texts += clauses_of(request.text) if reply else ()
    for matter in _open_matters(request):
        texts += [matter.said, joined_text(matter.said, request.text)]
    return [text for text in dict.fromkeys(texts) if text.strip()]


def build_turn(
    request: SelectionRequest,
    state: ConversationState,
    readings: Mapping[str, TextReading],
    *,
    hits: Mapping[str, float],
    named: Mapping[str, float],
    general: str | None,
) -> Turn:
    """Builds the turn from the readings of `user_messages` and `context_texts`.

    When the active agent may not continue, the message is treated as the start of a conversation: the history would favour
    that agent.
    """
    reply = "" if state.passed_over else request.head.last_reply
    matters = () if state.passed_over else _open_matters(request)
    earlier = [] if state.passed_over else _earlier(request)
    return Turn(
        message=readings[request.text],
        wording=read_message(readings[request.text].corrected.text),
        reply=readings.get(reply),
        joined=readings.get(joined_text(reply, request.text)),
        reply_wording=read_reply(reply),
        past=tuple(
            EarlierMessage(
                reading=readings[exchange.message],
                wording=read_message(readings[exchange.message].corrected.text),
                agent=continuing_agent(exchange.agent, request),
                reply_wording=read_reply(exchange.before),
                joined=readings.get(joined_text(exchange.before, exchange.message)),
            )
            for exchange in earlier
        ),
        active=state.active,
        visited=state.visited,
        previous=tuple(n for n in request.context.previous_agents if continuing_agent(n, request) == n),
        awaiting=state.awaiting,
        offered=tuple(name for name in request.head.offered if name in request.eligible),
        hits=hits,
        named=named,
        general=general,
        noted={
            each.agent: each.type for each in reversed(request.noted) if continuing_agent(each.agent, request) == each.agent
        },
        clauses=read_clauses(request.text, readings) if reply else (),
        matters=read_matters([each for each in matters if each.agent != state.active], request.text, readings),
    )


def read_clauses(message: str, readings: Mapping[str, TextReading]) -> tuple[Clause, ...]:
    """Returns the message's clauses, from their readings."""
    return tuple(Clause(readings[text], _asks(text)) for text in clauses_of(message))


def read_matters(matters: Sequence[OpenMatter], message: str, readings: Mapping[str, TextReading]) -> tuple[LeftMatter, ...]:
    """Returns the open matters, from the readings of their words and of those joined with the message."""
    return tuple(
        LeftMatter(each.agent, read_reply(each.said), readings[each.said], readings[joined_text(each.said, message)])
        for each in matters
    )


def joined_text(reply: str, message: str) -> str:
    """Joins the end of a reply with the message after it; empty without a reply.

    The joined text is often more informative than the two texts separately.
    """
    end = reply[-RECENT_CHARACTERS:].strip()
    return f"{end} {message[:RECENT_CHARACTERS]}" if end else ""


def _asks(text: str) -> bool:
    found = text_features(text)
    return found.asks or found.imperative or found.question_word or found.question_mark


def _open_matters(request: SelectionRequest) -> list[OpenMatter]:
    """Returns the matters of agents that may continue, the latest first."""
    latest = request.head.matters[::-1]
    return [each for each in latest if continuing_agent(each.agent, request) == each.agent][:READ_MATTERS]


def _earlier(request: SelectionRequest) -> list[Exchange]:
    recent = request.head.recent
    if recent and recent[-1].agent is None and recent[-1].message == request.text[:RECENT_CHARACTERS]:
        recent = recent[:-1]  # inside a turn, the last entry is the current message
    return [exchange for exchange in reversed(recent) if exchange.message.strip()]
