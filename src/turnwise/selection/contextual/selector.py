"""Who takes the message, given the conversation: stay with the active agent, or leave it, and for whom (behaviours C9, C17)."""

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from turnwise.facts.selections import Verdict
from turnwise.matching.normalize import normalize
from turnwise.matching.patterns import PatternIndex
from turnwise.matching.sentences import ends_sentence
from turnwise.matching.text_features import text_features
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.active_agent import ConversationState, conversation_state
from turnwise.selection.contextual import NOBODY, explain
from turnwise.selection.contextual.collect import build_turn, context_texts, user_messages
from turnwise.selection.contextual.features import features
from turnwise.selection.contextual.model import Model, Scores, load_shipped
from turnwise.selection.contextual.situation import Roster, Situation, Turn, build_situation, is_empty
from turnwise.selection.contextual.wording import AgentNames, read_message
from turnwise.selection.meaning import Meaning, TextReading
from turnwise.selection.verdicts import abstained, chosen, with_corrections

READ_CHARACTERS = 600
"""Longer messages are not taken apart: they tell a story."""
_FEWEST_WORDS = 3
_SENTENCES = re.compile(r"(?<=[.!?;])\s+(?:(?:then|and|also|plus)[,\s]+)*", re.IGNORECASE)
_JOINTS = re.compile(
    r"\s*,?\s+(?:and|plus|also|then)(?:\s+(?:also|then|please|after that|in addition))*\s+|\s*[;\n]\s*", re.IGNORECASE
)


def split_requests(text: str) -> tuple[str, str] | None:
    """The two parts of a message that seems to ask for two things; None when it does not.

    It is taken apart at a sentence's end or at a joining word, where both sides ask for something or have something to say.
    """
    if len(text) > READ_CHARACTERS:
        return None
    plain = normalize(text)
    ends = (each for each in _SENTENCES.finditer(plain) if ends_sentence(plain, each.start()))
    for joint in (*ends, *_JOINTS.finditer(plain)):
        first, second = plain[: joint.start()].strip(), plain[joint.end() :].strip()
        if _asks(first) and _asks(second):
            return first, second
    return None


def _asks(part: str) -> bool:
    found = text_features(part)
    asking = found.asks or found.imperative or found.question_word
    return found.words >= _FEWEST_WORDS and found.content >= (1 if asking else 2)


MARGIN = 0.0
STAY, LEAVE, ROUTE, RETURN, SMALLTALK = (
    "contextual_stay",
    "contextual_leave",
    "contextual_route",
    "contextual_return",
    "smalltalk",
)
_ROSTERS = 64
_BAR, _STRANGE = 0.5, 0.7
_PLAIN = 0.97
_UNREADABLE_STAY = 0.6
_SMALLTALK = 0.5
_EMPTY_NOVELTY = 0.9
_NOTHING = "No agent that may be chosen has anything to go by."
_EMPTY = "No word of the message says what it is about, and nobody has the conversation."


class _Candidates(NamedTuple):
    """Who may be chosen, as the model needs it. The two tuples are those it was made of."""

    labels: tuple[str, ...]
    eligible: tuple[str, ...]
    roster: Roster
    names: AgentNames


class Contextual:
    """Chooses by one trained model over the message, the conversation and the candidates; it knows no agent by name.

    nobody: abstain when nobody should take the message with more than this probability. margin: abstain when the two best
    are nearer to each other and neither has the conversation (0 = never). general: who takes small talk that opens a
    conversation; None = the lead of the team that asks, or the root. Methods: `contextual_route` opens, `contextual_stay` goes
    on, `contextual_leave` changes,
    `contextual_return` goes back to an agent that spoke before, `smalltalk`. The confidence is the probability that the agent
    is the right one if anybody is. An abstention lists the candidates all the same. Only the eligible count; who is gone, may
    not go on, or whose card says `resume: never` does not have the conversation. A second request in the message for somebody
    else is reported in `also`.
    """

    def __init__(
        self,
        meaning: Meaning,
        patterns: PatternIndex,
        *,
        general: str | None = None,
        nobody: float = NOBODY,
        margin: float = MARGIN,
        model: Model | None = None,
        name: str = "contextual",
    ) -> None:
        self.name = name
        self._meaning, self._patterns = meaning, patterns
        self._general, self._nobody, self._margin = general, nobody, margin
        self._model = model or load_shipped()
        self._companies: OrderedDict[tuple[int, int], _Candidates] = OrderedDict()

    @property
    def named_agents(self) -> tuple[str, ...]:
        """The agents that it was given by name."""
        return () if self._general is None else (self._general,)

    async def select(self, request: SelectionRequest) -> Verdict:
        if request.occasion == "answer":
            return abstained(self.name, "The conversation is weighed for messages, not for answers.")
        stands = conversation_state(request)
        if read_message(request.text).unreadable:
            return self._unreadable(request, stands)
        readings = await self._readings(request)
        situation = self._situation(request, stands, readings)
        if not situation.candidates:
            return abstained(self.name, _NOTHING, passed_over=stands.passed_over)
        scores = self._model.scores(features(situation))
        verdict = self._decided(request, stands, situation, scores)
        has_a_part = verdict.agent is not None and verdict.agent in (stands.awaiting, *stands.visited)
        if stands.passed_over and not has_a_part:
            # That others have a part in the conversation must not help an agent that may not go on with it.
            situation = self._again(request, situation.turn._replace(visited=(), awaiting=None))
            if not situation.candidates:
                return abstained(self.name, _NOTHING, passed_over=stands.passed_over)
            verdict = self._decided(request, stands, situation, self._model.scores(features(situation)))
        verdict = self._with_what_helped(request, stands, situation, verdict)
        verdict = with_corrections(verdict, readings[request.text].mended.slips)
        return await self._with_second(request, situation, verdict)

    async def _readings(self, request: SelectionRequest) -> dict[str, TextReading]:
        """By text: the user's messages, what was said before them, and both as one."""
        lines = context_texts(request)
        readings = dict(zip(lines, await self._meaning.read(lines), strict=True))
        return readings | {message: await self._meaning.hear(message) for message in user_messages(request)}

    def _situation(
        self, request: SelectionRequest, stands: ConversationState, readings: Mapping[str, TextReading]
    ) -> Situation:
        company = self._company(readings[request.text].match.labels, request.eligible)
        hits = {hit.label: hit.confidence for hit in self._patterns.match(request.text) if hit.label in request.eligible}
        named = company.names.named(read_message(readings[request.text].mended.text).tokens)
        general = self._general or request.lead or request.tree.root
        taker = general if general in request.eligible else None
        turn = build_turn(request, stands, readings, hits=hits, named=named, general=taker)
        return build_situation(turn, company.roster, self._model.tracking)

    def _again(self, request: SelectionRequest, turn: Turn) -> Situation:
        """The situation of a turn in which less is known."""
        company = self._company(turn.message.match.labels, request.eligible)
        return build_situation(turn, company.roster, self._model.tracking)

    def _company(self, labels: tuple[str, ...], eligible: tuple[str, ...]) -> _Candidates:
        """Remembered by identity: labels belong to a matcher, the eligible to a kind of caller."""
        key = (id(labels), id(eligible))
        found = self._companies.get(key)
        if found is None or found.labels is not labels or found.eligible is not eligible:
            found = _Candidates(labels, eligible, Roster(labels, eligible), AgentNames(eligible))
            self._companies[key] = found
            while len(self._companies) > _ROSTERS:
                self._companies.popitem(last=False)
        return found

    def _unreadable(self, request: SelectionRequest, stands: ConversationState) -> Verdict:
        agent = stands.awaiting if stands.awaiting == stands.active else stands.active
        if agent is None:
            why = "The message holds no words that can be read, and nobody has the conversation."
            return abstained(self.name, why, passed_over=stands.passed_over)
        said = f"stays: the message holds no words that can be read, and {agent} has the conversation."
        return chosen(self.name, agent, method=STAY, confidence=_UNREADABLE_STAY, reason=said, passed_over=stands.passed_over)

    def _decided(self, request: SelectionRequest, stands: ConversationState, situation: Situation, scores: Scores) -> Verdict:
        turn, candidates, empty = situation.turn, explain.explained_candidates(situation, scores), is_empty(situation)
        chats = turn.active is None and scores.smalltalk > _SMALLTALK
        nobody = max(scores.nobody, _EMPTY_NOVELTY) if empty else scores.nobody
        found: dict[str, Any] = {
            "candidates": candidates,
            "passed_over": stands.passed_over,
            "novelty": round(nobody * (1.0 - scores.smalltalk) if chats else nobody, 6),
        }
        best, second = candidates[0], candidates[1] if len(candidates) > 1 else None
        agent = best.agent
        if chats:
            if turn.general is None:
                return abstained(self.name, "Small talk, and nobody is there for it.", confidence=scores.smalltalk, **found)
            said = f"routes to {turn.general}: small talk, no request."
            return chosen(self.name, turn.general, method=SMALLTALK, confidence=scores.smalltalk, reason=said, **found)
        if empty or nobody > self._nobody:
            said = f"Nobody should take it, it seems: the nearest is {agent} ({best.evidence})."
            return abstained(self.name, _EMPTY if empty else said, confidence=nobody, **found)
        if explain.has_ended(situation, agent, request.tree, stands.passed_over):
            said = f"{agent} has ended, and the message by itself is nearer to another agent, so it is no request for {agent}."
            return abstained(self.name, said, confidence=best.score, **found)
        if second and best.score - second.score < self._margin and turn.active not in (agent, second.agent):
            said = f"{agent} ({best.score:.2f}) and {second.agent} ({second.score:.2f}) are too close to tell."
            return abstained(self.name, said, confidence=best.score, **found)
        if agent == turn.active:
            return chosen(self.name, agent, method=STAY, confidence=best.score, reason=explain.stay_reason(situation), **found)
        returns = agent in turn.visited
        method = ROUTE if turn.active is None else RETURN if returns else LEAVE
        said = explain.leave_reason(situation, agent, returns=returns)
        return chosen(self.name, agent, method=method, confidence=best.score, reason=said, **found)

    def _with_what_helped(
        self, request: SelectionRequest, stands: ConversationState, situation: Situation, verdict: Verdict
    ) -> Verdict:
        """The verdict, whose reason names the caller's previous agents when it would be another without them."""
        turn = situation.turn
        if verdict.outcome != "chosen" or verdict.agent not in turn.previous:
            return verdict
        without = self._again(request, turn._replace(previous=()))
        instead = None
        if without.candidates:
            instead = self._decided(request, stands, without, self._model.scores(features(without))).agent
        if instead == verdict.agent:
            return verdict
        return verdict.model_copy(update={"reason": f"{verdict.reason} {explain.helped(verdict.agent, instead)}"})

    async def _with_second(self, request: SelectionRequest, situation: Situation, verdict: Verdict) -> Verdict:
        """The verdict, with the other agent's name if the message plainly asks two agents for something."""
        if verdict.outcome != "chosen" or verdict.agent is None or situation.best > _PLAIN:
            return verdict
        parts = split_requests(request.text)
        if parts is None:
            return verdict
        first, second = agents = [self._plainly(part, situation) for part in await self._meaning.read(parts)]
        if first is None or second is None or first == second:
            return verdict
        if verdict.agent not in agents:
            return verdict
        other = second if verdict.agent == first else first
        said = f"{verdict.reason} The message also holds a request for {other}."
        return verdict.model_copy(update={"also": (other,), "reason": said})

    def _plainly(self, part: TextReading, situation: Situation) -> str | None:
        """Whose request this part plainly is."""
        match = part.match.among(situation.candidates)
        if part.match.novelty > _STRANGE or not match.labels:
            return None
        agent, share = match.ranked(1)[0]
        return agent if share >= _BAR else None
