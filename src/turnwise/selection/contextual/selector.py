"""The contextual selector: stays with the active agent or moves the conversation to another (behaviours C9, C17).

Messages that the encoder cannot read are decided by names, patterns, and the agent that has the conversation.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from turnwise.facts.selections import Candidate, Verdict
from turnwise.matching.patterns import PatternIndex
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.contextual import NOBODY, explain
from turnwise.selection.contextual.features import features
from turnwise.selection.contextual.situation import (
    Roster,
    Situation,
    Turn,
    build_situation,
    build_turn,
    context_texts,
    is_empty,
    user_messages,
)
from turnwise.selection.contextual.trained_model import Model, Scores, load_shipped
from turnwise.selection.contextual.wording import AgentNames, parts_beside_answer, read_message, split_requests
from turnwise.selection.meaning import Meaning, TextReading
from turnwise.selection.reader import unread
from turnwise.selection.resume import ConversationState, conversation_state
from turnwise.selection.verdicts import GUESS, abstained, chosen, with_corrections

MARGIN = 0.0
STAY, LEAVE, ROUTE, RETURN, SMALLTALK = (
    "contextual_stay",
    "contextual_leave",
    "contextual_route",
    "contextual_return",
    "smalltalk",
)
Ties = Literal["others", "all"]
"""Which near ties are left to later stages: those without the active agent, or all, also whether to stay or to leave."""
_CACHE_SIZE = 64
_PART_SHARE, _STATED_SHARE, _PART_NOVELTY = 0.5, 0.65, 0.7
_ONE_AGENT_SHARE = 0.97
_UNREADABLE_STAY = 0.6
_SMALLTALK = 0.5
_EMPTY_NOVELTY = 0.9
_NOTHING = "No agent that may be chosen has anything to go by."
_ASKED_NOVELTY = 0.5  # the later stages do not ask about a message that is more likely for nobody
_EMPTY = "No word of the message says what it is about, and nobody has the conversation."

CONFIDENCE = 0.6
"""Confidence of such a decision."""
_NAMED = 0.5
MAX_GUESSES = 3
"""How many agents are candidates for a question when nothing points to one."""


class _Candidates(NamedTuple):
    """Cached data about the eligible agents. `labels` and `eligible` are the tuples it was built from."""

    labels: tuple[str, ...]
    eligible: tuple[str, ...]
    roster: Roster
    names: AgentNames


class Contextual:
    """Chooses with one trained model over the message, the conversation and the candidates. The model knows no agent by name.

    The method is `contextual_route` at the start of a conversation, `contextual_stay`, `contextual_leave` for another agent,
    `contextual_return` for an agent that spoke before, or `smalltalk`. The confidence is the agent's probability, given that
    the message is in scope. An abstention also lists the candidates. A second request for another agent is reported in `also`.

    Only eligible agents count. An agent that is gone, may not continue, or has `resume: never` is not the active agent.

    Args:
        meaning: Reads the messages.
        patterns: The patterns of all agents.
        general: Agent for small talk at the start of a conversation; None = the asking team's lead, or the root.
        nobody: Abstain above this probability that the message is out of scope.
        margin: Abstain when the two best are closer than this (0 = never).
        ties: With `others`, a tie with the active agent is not left to later stages: it continues, or the best is chosen.
        model: The model; None = the bundled one.
        name: The stage's name.
    """

    def __init__(
        self,
        meaning: Meaning,
        patterns: PatternIndex,
        *,
        general: str | None = None,
        nobody: float = NOBODY,
        margin: float = MARGIN,
        ties: Ties = "others",
        model: Model | None = None,
        name: str = "contextual",
    ) -> None:
        self.name = name
        self._meaning, self._patterns = meaning, patterns
        self._general, self._nobody, self._margin, self._ties = general, nobody, margin, ties
        self._model = model or load_shipped()
        self._candidates_cache: OrderedDict[tuple[int, int], _Candidates] = OrderedDict()

    @property
    def named_agents(self) -> tuple[str, ...]:
        """Agents named in the configuration."""
        return () if self._general is None else (self._general,)

    async def select(self, request: SelectionRequest) -> Verdict:
        """Weighs staying against moving and returns the verdict. Unreadable messages are decided without their words."""
        if request.occasion == "answer":
            return abstained(self.name, "The conversation is weighed for messages, not for answers.")
        state = conversation_state(request)
        language = self._meaning.languages.unknown(request.text)
        if language is not None:
            return await self._unread(request, state, language)
        if read_message(request.text).unreadable and not self._meaning.languages.reads(request.text):
            return self._unreadable(request, state)
        readings = await self._readings(request)
        situation = self._situation(request, state, readings)
        if not situation.candidates:
            return abstained(self.name, _NOTHING, passed_over=state.passed_over)
        scores = self._model.scores(features(situation))
        verdict = self._verdict_for(request, state, situation, scores)
        takes_part = verdict.agent is not None and verdict.agent in (state.awaiting, *state.visited)
        if state.passed_over and not takes_part:
            # Decides again without the other participants: they must not help an agent that may not continue.
            situation = self._rebuilt(request, replace(situation.turn, visited=(), awaiting=None))
            if not situation.candidates:
                return abstained(self.name, _NOTHING, passed_over=state.passed_over)
            verdict = self._verdict_for(request, state, situation, self._model.scores(features(situation)))
        verdict = self._with_previous_agents_note(request, state, situation, verdict)
        verdict = with_corrections(verdict, readings[request.text].corrected.corrections)
        return await self._with_second_agent(request, situation, verdict)

    async def _readings(self, request: SelectionRequest) -> dict[str, TextReading]:
        """Reads the user's messages, the texts before them, and both joined; keyed by text."""
        texts = context_texts(request)
        readings = dict(zip(texts, await self._meaning.read(texts), strict=True))
        return readings | {message: await self._meaning.read_message(message) for message in user_messages(request)}

    def _situation(self, request: SelectionRequest, state: ConversationState, readings: Mapping[str, TextReading]) -> Situation:
        """Collects the candidates and their scores for this message from the conversation, patterns and names."""
        cached = self._candidates_for(readings[request.text].match.labels, request.eligible)
        hits = {hit.label: hit.confidence for hit in self._patterns.match(request.text) if hit.label in request.eligible}
        named = cached.names.named(read_message(readings[request.text].corrected.text).tokens)
        general = self._general or request.lead or request.tree.root
        general_agent = general if general in request.eligible else None
        turn = build_turn(request, state, readings, hits=hits, named=named, general=general_agent)
        return build_situation(turn, cached.roster, self._model.tracking)

    def _rebuilt(self, request: SelectionRequest, turn: Turn) -> Situation:
        """Rebuilds the situation for a turn with fewer facts."""
        cached = self._candidates_for(turn.message.match.labels, request.eligible)
        return build_situation(turn, cached.roster, self._model.tracking)

    def _candidates_for(self, labels: tuple[str, ...], eligible: tuple[str, ...]) -> _Candidates:
        """Returns cached candidate data. Identity works as the key: a matcher and a kind of caller each reuse their tuple."""
        key = (id(labels), id(eligible))
        found = self._candidates_cache.get(key)
        if found is None or found.labels is not labels or found.eligible is not eligible:
            found = _Candidates(labels, eligible, Roster(labels, eligible), AgentNames(eligible))
            self._candidates_cache[key] = found
            while len(self._candidates_cache) > _CACHE_SIZE:
                self._candidates_cache.popitem(last=False)
        return found

    async def _unread(self, request: SelectionRequest, state: ConversationState, language: str) -> Verdict:
        """Decides about a message in a language that cannot be read. The encoder's guess is only good for a question."""
        (reading,) = await self._meaning.read([request.text])
        cached = self._candidates_for(reading.match.labels, request.eligible)
        hits = {hit.label: hit.confidence for hit in self._patterns.match(request.text) if hit.label in request.eligible}
        match = reading.match.among(request.eligible)
        nearest = [agent for agent, _ in match.ranked(MAX_GUESSES)] if match.labels else []
        clues = Clues(hits, cached.names.named(read_message(request.text).tokens), nearest)
        return decide_unread(self.name, unread(language), clues, state, Methods(STAY, LEAVE, ROUTE, RETURN))

    def _unreadable(self, request: SelectionRequest, state: ConversationState) -> Verdict:
        """Stays with the active agent for a message without readable words; abstains if no agent is active."""
        agent = state.awaiting if state.awaiting == state.active else state.active
        if agent is None:
            why = "The message holds no words that can be read, and nobody has the conversation."
            return abstained(self.name, why, passed_over=state.passed_over)
        why = f"stays: the message holds no words that can be read, and {agent} has the conversation."
        return chosen(self.name, agent, method=STAY, confidence=_UNREADABLE_STAY, reason=why, passed_over=state.passed_over)

    def _verdict_for(
        self, request: SelectionRequest, state: ConversationState, situation: Situation, scores: Scores
    ) -> Verdict:
        """Turns scores into a verdict: small talk, out of scope, stay, move, or a tie for clarification."""
        turn, candidates, empty = situation.turn, explain.explained_candidates(situation, scores), is_empty(situation)
        is_smalltalk = turn.active is None and not turn.noted and scores.smalltalk > _SMALLTALK
        nobody = max(scores.nobody, _EMPTY_NOVELTY) if empty else scores.nobody
        found: dict[str, Any] = {
            "candidates": candidates,
            "passed_over": state.passed_over,
            "novelty": round(nobody * (1.0 - scores.smalltalk) if is_smalltalk else nobody, 6),
        }
        best, second = candidates[0], candidates[1] if len(candidates) > 1 else None
        agent = best.agent
        if is_smalltalk:
            if turn.general is None:
                return abstained(self.name, "Small talk, but no agent may take it.", confidence=scores.smalltalk, **found)
            why = f"routes to {turn.general}: small talk, no request."
            return chosen(self.name, turn.general, method=SMALLTALK, confidence=scores.smalltalk, reason=why, **found)
        if empty or nobody > self._nobody:
            why = f"Nobody should take it, it seems: the nearest is {agent} ({best.evidence})."
            return abstained(self.name, _EMPTY if empty else why, confidence=nobody, **found)
        if explain.has_ended(situation, agent, request.tree, state.passed_over):
            why = f"{agent} has ended, and the message by itself is nearer to another agent, so it is no request for {agent}."
            return abstained(self.name, why, confidence=best.score, **found)
        asks_all = self._ties == "all" and nobody <= _ASKED_NOVELTY
        is_open = asks_all or (second is not None and turn.active not in (agent, second.agent))
        if second and best.score - second.score < self._margin and is_open:
            why = f"{agent} ({best.score:.2f}) and {second.agent} ({second.score:.2f}) are too close to tell."
            return abstained(self.name, why, confidence=best.score, **found)
        if agent == turn.active:
            return chosen(self.name, agent, method=STAY, confidence=best.score, reason=explain.stay_reason(situation), **found)
        returns = agent in turn.visited
        method = ROUTE if turn.active is None else RETURN if returns else LEAVE
        why = explain.leave_reason(situation, agent, returns=returns)
        return chosen(self.name, agent, method=method, confidence=best.score, reason=why, **found)

    def _with_previous_agents_note(
        self, request: SelectionRequest, state: ConversationState, situation: Situation, verdict: Verdict
    ) -> Verdict:
        """Adds a note to the reason when the verdict depends on the caller's previous agents."""
        turn = situation.turn
        if verdict.outcome != "chosen" or verdict.agent not in turn.previous:
            return verdict
        without = self._rebuilt(request, replace(turn, previous=()))
        other = None
        if without.candidates:
            other = self._verdict_for(request, state, without, self._model.scores(features(without))).agent
        if other == verdict.agent:
            return verdict
        note = explain.previous_agents_note(verdict.agent, other)
        return verdict.replace(reason=f"{verdict.reason} {note}")

    async def _with_second_agent(self, request: SelectionRequest, situation: Situation, verdict: Verdict) -> Verdict:
        """Adds the second agent when the message clearly contains requests for two agents."""
        if verdict.outcome != "chosen" or verdict.agent is None or situation.best > _ONE_AGENT_SHARE:
            return verdict
        other = await self._asked_beside_the_answer(request, situation, verdict.agent)
        if other is not None:
            return verdict.replace(also=(other,), reason=f"{verdict.reason} The message is also for {other}.")
        parts = split_requests(request.text)
        if parts is None:
            return verdict
        first, second = agents = [self._clear_agent_of(part, situation) for part in await self._meaning.read(parts)]
        if first is None or second is None or first == second:
            return verdict
        if verdict.agent not in agents:
            return verdict
        other = second if verdict.agent == first else first
        why = f"{verdict.reason} The message also holds a request for {other}."
        return verdict.replace(also=(other,), reason=why)

    async def _asked_beside_the_answer(self, request: SelectionRequest, situation: Situation, agent: str) -> str | None:
        """Returns the other agent of a message that answers the active agent's question and asks for something else too.

        None when there is no question, or no part is clearly a request for another agent.
        """
        turn = situation.turn
        if turn.active is None or not (turn.reply_wording.question or turn.awaiting == turn.active):
            return None
        parts = parts_beside_answer(request.text)
        for part, reading in zip(parts, await self._meaning.read([each.text for each in parts]), strict=True):
            least = _PART_SHARE if part.asks else _STATED_SHARE
            other = self._clear_agent_of(reading, situation, least)
            if other not in (None, turn.active):
                return other if agent == turn.active else turn.active if agent == other else None
        return None

    def _clear_agent_of(self, part: TextReading, situation: Situation, least: float = _PART_SHARE) -> str | None:
        """Returns the agent that this part is clearly a request for; None when unclear."""
        match = part.match.among(situation.candidates)
        if part.match.novelty > _PART_NOVELTY or not match.labels:
            return None
        agent, share = match.ranked(1)[0]
        return agent if share >= least else None


class Clues(NamedTuple):
    """The facts about a message that are known without reading it."""

    hits: Mapping[str, float]
    """Confidence of matching patterns, by agent."""
    named: Mapping[str, float]
    """Share of each agent's name that the message contains."""
    nearest: Sequence[str] = ()
    """Agents that may be offered to the user, best guess first."""


class Methods(NamedTuple):
    """The names of the methods that a decision may have."""

    stay: str
    leave: str
    route: str
    back: str


def decide_unread(selector: str, why: str, clues: Clues, state: ConversationState, methods: Methods) -> Verdict:
    """Returns the verdict. An agent that waits for a reply comes before all clues; else it abstains without any.

    Args:
        selector: The selector's name.
        why: Why the message is not read, as a clause.
        clues: The facts about it.
        state: The agents' places in the conversation.
        methods: The methods of the decision.
    """
    active = state.active
    waits = state.awaiting is not None and state.awaiting == active
    agent, what = (None, "") if waits else _pointed_to(clues)
    if agent is not None and agent != active:
        method = methods.route if active is None else methods.back if agent in state.visited else methods.leave
        verb = "routes to" if active is None else "returns to" if method == methods.back else "goes to"
        return _chosen(selector, agent, method, f"{verb} {agent}: {what}; {why}.", state)
    if active is not None:
        return _chosen(selector, active, methods.stay, f"stays: {why}, and {active} has the conversation.", state)
    reason = f"{why[:1].upper()}{why[1:]}, and nobody has the conversation."
    candidates = tuple(Candidate(agent=name, score=CONFIDENCE, evidence=GUESS) for name in clues.nearest[:MAX_GUESSES])
    return abstained(selector, reason, candidates=candidates, passed_over=state.passed_over)


def _pointed_to(clues: Clues) -> tuple[str | None, str]:
    """Returns the agent that the clues point to, and how; None when they point to none, or to several alike."""
    agent = _single_best({name: share for name, share in clues.named.items() if share >= _NAMED})
    if agent is not None:
        return agent, f"the message names {agent}"
    agent = _single_best(clues.hits)
    return agent, f"a pattern of {agent} matches"


def _single_best(amounts: Mapping[str, float]) -> str | None:
    best = [name for name, amount in amounts.items() if amount == max(amounts.values())]
    return best[0] if len(best) == 1 else None


def _chosen(selector: str, agent: str, method: str, reason: str, state: ConversationState) -> Verdict:
    more: dict[str, Any] = {"passed_over": state.passed_over}
    return chosen(selector, agent, method=method, confidence=CONFIDENCE, reason=reason, **more)
