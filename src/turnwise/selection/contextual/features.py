"""Numeric features for each candidate. They name no agent, so one model serves any set of agents."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.matching.match import Match
from turnwise.matching.spelling import CorrectedText
from turnwise.selection.contextual.belief import FLOOR, UNTRAINED
from turnwise.selection.contextual.evidence import clause_claims, evidence_features, matter_claims, repair_claims
from turnwise.selection.contextual.situation import Roster, Situation, Turn, build_situation
from turnwise.selection.contextual.wording import read_message
from turnwise.selection.meaning import TextReading

_LIKELY, _TIMES = math.log(0.5), math.log(5.0)
_ALIKE = 0.4
_NOTED = 0.8
_PLAIN, _FOREIGN, _SAME = math.log(0.95), math.log(0.03), 0.8

Floats = NDArray[np.float64]

SCALE = -math.log(FLOOR)

_PAST_MESSAGES = 3
_MAX_COUNT = 40
_LOGS = tuple(math.log1p(count) for count in range(_MAX_COUNT + 1))


class DominatedCandidate(NamedTuple):
    """A candidate that another one clearly beats."""

    place: int
    """Index of the candidate."""
    by: int
    """Index of the better candidate."""
    lead: float
    """The lead, as a difference of log-probabilities."""


class Features(NamedTuple):
    """The model's input for one turn."""

    claims: Floats
    """One row per candidate, one column per name in `CLAIMS`."""
    active: int | None
    """Row of the active agent; None = no active agent."""
    turn: Floats
    """Turn features, as named in `AROUND`."""
    conversation: Floats
    """Conversation features, as named in `SAID`; all zero without a conversation."""
    novelty: float
    """Probability, by the message alone, that it is out of scope."""
    rest: float
    """Total probability of the agents that are not candidates."""
    dominated: tuple[DominatedCandidate, ...] = ()
    """The dominated candidates."""
    noted: Floats | None = None
    """1 for each candidate that noted a thing which the message names, 2 where nothing else tells; None when there is none."""


def features(situation: Situation) -> Features:
    """Returns the features of a turn. A candidate's features do not depend on the order of the others."""
    active = situation.place(situation.turn.active)
    claims = _claims(situation)
    conversation = dict.fromkeys(CONVERSATION_FEATURES, 0.0) if active is None else _conversation(situation, active)
    return Features(
        claims=np.array(list(claims.values())).T.copy(),
        active=active,
        turn=np.array(list(turn_features(situation).values())),
        conversation=np.array(list(conversation.values())),
        novelty=_novelty(situation.turn),
        rest=situation.rest,
        dominated=dominated_candidates(situation),
        noted=_noted(situation) if situation.turn.noted else None,
    )


def _noted(situation: Situation) -> Floats:
    """Returns the candidates that noted a thing. They count twice if the message is like no phrase and answers no question."""
    turn = situation.turn
    is_clear = float(situation.similarities.max(initial=0.0)) >= _ALIKE
    is_asked = turn.active is not None and (turn.reply_wording.question or turn.awaiting is not None)
    return situation.marks(turn.noted) * (1.0 if is_clear or is_asked else 2.0)


def dominated_candidates(situation: Situation) -> tuple[DominatedCandidate, ...]:
    """Returns the candidates that another one dominates: five times as likely by the message, and ahead or equal in all else.

    The active agent is dominated only by a clear request for another agent, since staying depends on more than the message.
    An agent that waits for a reply or was offered to the user is dominated only by another such agent.
    """
    turn, active = situation.turn, situation.place(situation.turn.active)
    if active is None or len(situation.candidates) < 2:
        return ()
    named = situation.amounts(turn.named)
    shown = np.array([
        situation.similarities,
        named,
        situation.amounts(turn.hits),
        situation.marks(turn.offered),
        situation.marks((turn.awaiting,) if turn.awaiting else ()),
    ])  # fmt: skip
    found = []
    for better in np.flatnonzero(situation.message >= _LIKELY).tolist():
        clear = situation.similarities[better] >= _ALIKE
        weaker = situation.message <= situation.message[better] - _TIMES
        weaker &= (shown <= shown[:, [better]]).all(axis=0) & (clear | (named < named[better]))
        weaker[active] = weaker[active] and _is_clear_request(situation, active, better)
        leads = situation.message[better] - situation.message
        found += [DominatedCandidate(place, better, float(leads[place])) for place in np.flatnonzero(weaker).tolist()]
    return tuple(found)


def turn_features(situation: Situation) -> dict[str, float]:
    """Returns features of the whole turn. The model uses them for staying, out of scope and small talk."""
    turn, words, seen = situation.turn, situation.turn.wording, situation.turn.wording.features
    asks = float(seen.asks or seen.imperative or seen.question_word)
    value = seen.email or seen.phone or seen.date or seen.time or seen.money or seen.order_code or seen.address
    return {
        "one": 1.0,
        "words": _log(seen.words),
        "rest": _log(seen.rest),
        "content": _log(seen.content),
        "empty": float(seen.content == 0),
        "brief": float(seen.rest <= 3),
        "long": float(seen.words >= 20),
        "yes": float(seen.opens_yes),
        "no": float(seen.opens_no),
        "ok": float(seen.opens_ok),
        "thanks": float(seen.thanks),
        "closing": float(seen.closing),
        "greeting": float(seen.opens_greeting),
        "asks": asks,
        "wants": float(seen.asks),
        "imperative": float(seen.imperative),
        "question": float(seen.question_mark),
        "question_word": float(seen.question_word),
        "also": float(seen.also),
        "instead": float(seen.instead),
        "actually": float(seen.actually),
        "never_mind": float(seen.never_mind),
        "about": float(seen.what_about),
        "refers": float(seen.refers_back),
        "own": float(seen.own),
        "you": float(seen.you),
        "negates": float(seen.negates),
        "please": float(seen.please),
        "resumes": float(words.resumes or seen.back_to),
        "calls": float(words.calls),
        "numbers": float(seen.numbers > 0),
        "value": float(value),
        "code": float(seen.code_like),
        "strange": float(words.strange) * turn.message.match.novelty,
        "entropy": situation.entropy,
        "novelty": _logit(turn.message.match.novelty),
        "smalltalk": _logit(turn.message.smalltalk),
        "similar": float(situation.similarities.max(initial=0.0)),
        "best": math.log(max(situation.best, FLOOR)),
        "asks_content": asks * _log(seen.content),
        "named": max(turn.named.values(), default=0.0),
        "named_calls": max(turn.named.values(), default=0.0) * float(words.calls),
        "hit": max(turn.hits.values(), default=0.0),
    }


def _is_clear_request(situation: Situation, active: int, other: int) -> bool:
    """Returns whether the message alone is clearly a request for another agent than the active one."""
    seen = situation.turn.wording.features
    asks = seen.asks or seen.imperative or seen.question_word or seen.question_mark
    return bool(
        asks
        and seen.content >= 1
        and situation.message[other] >= _PLAIN
        and situation.message[active] <= _FOREIGN
        and situation.similarities[other] >= _SAME
    )


def _logit(probability: float) -> float:
    inside = min(max(probability, 0.002), 0.998)
    return math.log(inside / (1.0 - inside))


def _best_others(rows: Sequence[Floats], active: int) -> list[float]:
    """Returns each row's maximum without the active agent."""
    table = np.array(rows)
    if table.shape[1] < 2:
        return [-SCALE] * len(rows)
    table[:, active] = -np.inf
    best: list[float] = table.max(axis=1).tolist()
    return best


def _lead(row: Floats | None, active: int) -> float:
    """Returns the active agent's lead over all others; 0 without such a text."""
    return float(row[active]) - _best_others([row], active)[0] if row is not None else 0.0


def _log(count: int) -> float:
    return _LOGS[min(count, _MAX_COUNT)]


def _conversation(situation: Situation, active: int) -> dict[str, float]:
    """Returns features for staying with the active agent, beside the message alone, and their interactions."""
    facts = _facts(situation, active)
    return facts | _crossed(situation, facts) | evidence_features(situation, active)


def _facts(situation: Situation, active: int) -> dict[str, float]:
    """Returns the facts of a turn by feature name: the last reply, the active agent's fit, and how far others are ahead."""
    turn, message, said = situation.turn, situation.message, situation.turn.reply_wording
    reply, joined, past = situation.reply, situation.joined, situation.past[:_PAST_MESSAGES]
    rows = [message, situation.similarities, situation.prior, situation.belief, *past]
    other, near, other_prior, other_belief, *others = _best_others(rows, active)
    doubt = [float(each[active]) - best for each, best in zip(past, others, strict=True)]
    return {
        "asked": float(said.question and not said.offers),
        "offers": float(said.offers),
        "done": float(said.done),
        "refuses": float(said.refuses),
        "silent": float(not said.anything),
        "awaits": float(turn.awaiting is not None and turn.awaiting == situation.candidates[active]),
        "echo": situation.echo,
        "other": other,
        "near": near,
        "ahead": near - float(situation.similarities[active]),
        "fits": float(message[active]) - other,
        "doubt": doubt[0] if doubt else 0.0,
        "doubt_before": sum(doubt[1:]),
        "reply_fits": _lead(reply, active),
        "joined_fits": _lead(joined, active),
        "prior_fits": float(situation.prior[active]) - other_prior,
        "belief_fits": float(situation.belief[active]) - other_belief,
        "stayed": float(_stayed(turn)),
        "general": float(turn.active == turn.general),
    }


def _crossed(situation: Situation, facts: Mapping[str, float]) -> dict[str, float]:
    """Returns products of pairs of facts, which the linear model could not form by itself."""
    turn, seen = situation.turn, situation.turn.wording.features
    asked, offers, done, awaits = facts["asked"], facts["offers"], facts["done"], facts["awaits"]
    other, ahead, general = facts["other"], facts["ahead"], facts["general"]
    asks = float(seen.asks or seen.imperative or seen.question_word)
    content, rest = _log(seen.content), _log(seen.rest)
    smalltalk, novelty = _logit(turn.message.smalltalk), _logit(turn.message.match.novelty)
    return {
        "asked_rest": asked * rest,
        "asked_content": asked * content,
        "asked_asks": asked * asks,
        "asked_value": asked * float(seen.numbers > 0 or seen.email),
        "asked_yesno": asked * float(seen.opens_yes or seen.opens_no),
        "asked_other": asked * other,
        "asked_ahead": asked * ahead,
        "asked_question": asked * float(seen.question_mark),
        "asked_novelty": asked * novelty,
        "awaits_other": awaits * other,
        "awaits_asks": awaits * asks,
        "offers_yes": offers * float(seen.opens_yes and not seen.opens_no),
        "offers_no": offers * float(seen.opens_no),
        "offers_asks": offers * asks,
        "offers_content": offers * content,
        "offers_other": offers * other,
        "done_asks": done * asks,
        "done_content": done * content,
        "done_other": done * other,
        "refuses_other": facts["refuses"] * other,
        "empty_other": float(seen.content == 0) * other,
        "content_other": content * other,
        "content_ahead": content * ahead,
        "asks_other": asks * other,
        "asks_ahead": asks * ahead,
        "refers_other": float(seen.refers_back) * other,
        "also_other": float(seen.also or seen.instead or seen.what_about) * other,
        "question_other": float(seen.question_mark) * other,
        "thanks_asks": float(seen.thanks) * asks,
        "thanks_content": float(seen.thanks) * content,
        "smalltalk_other": smalltalk * other,
        "novelty_other": novelty * other,
        "asks_belief": asks * facts["belief_fits"],
        "general_smalltalk": general * smalltalk,
        "general_other": general * other,
    }


def _stayed(turn: Turn) -> int:
    for count, past in enumerate(turn.past):
        if past.agent != turn.active:
            return count
    return len(turn.past)


def _claims(situation: Situation) -> dict[str, Floats]:
    """Returns features of each agent, active or not."""
    claims = _text_claims(situation) | _conversation_claims(situation) | _mark_claims(situation)
    return claims | clause_claims(situation) | matter_claims(situation) | repair_claims(situation)


def _text_claims(situation: Situation) -> dict[str, Floats]:
    """Returns features of the message alone and the reply alone."""
    turn, seen, none = situation.turn, situation.turn.wording.features, np.zeros(len(situation.candidates))
    ongoing, asks = _has_active(situation), float(seen.asks or seen.imperative or seen.question_word)
    logs = situation.message
    near = situation.similarities - float(situation.similarities.max(initial=0.0))
    reply = situation.reply if situation.reply is not None else none
    reply_near = situation.reply_similarities
    return {
        "opening": logs * (1.0 - ongoing),
        "message": logs * ongoing,
        "message_content": logs * ongoing * _log(seen.content),
        "message_asks": logs * ongoing * asks,
        "message_smalltalk": logs * ongoing * _logit(turn.message.smalltalk),
        "message_novelty": logs * ongoing * _logit(turn.message.match.novelty),
        "near": near * ongoing,
        "near_asks": near * ongoing * asks,
        "reply": reply,
        "reply_near": reply_near - reply_near.max(initial=0.0) if reply_near is not None else none,
        "reply_asks": reply * asks,
        "reply_asked": reply * float(turn.reply_wording.question),
        "reply_offers": reply * float(turn.reply_wording.offers or turn.reply_wording.done),
        "reply_refuses": reply * float(turn.reply_wording.refuses),
    }


def _conversation_claims(situation: Situation) -> dict[str, Floats]:
    """Returns features of the message combined with the conversation."""
    turn, seen, none = situation.turn, situation.turn.wording.features, np.zeros(len(situation.candidates))
    ongoing, asks, content = (
        _has_active(situation),
        float(seen.asks or seen.imperative or seen.question_word),
        _log(seen.content),
    )
    joined = situation.joined if situation.joined is not None else none
    prior, belief = situation.prior * ongoing, situation.belief * ongoing
    return {
        "joined": joined,
        "joined_asks": joined * asks,
        "joined_content": joined * content,
        "joined_asked": joined * float(turn.reply_wording.question),
        "prior": prior,
        "prior_asks": prior * asks,
        "prior_content": prior * content,
        "belief": belief,
        "belief_asks": belief * asks,
        "belief_content": belief * content,
        "past": situation.past[0] if situation.past else none,
    }


def _mark_claims(situation: Situation) -> dict[str, Floats]:
    """Returns features that do not come from texts' meaning: earlier turns, open questions, names and patterns."""
    turn, words, seen = situation.turn, situation.turn.wording, situation.turn.wording.features
    ongoing, asks = _has_active(situation), float(seen.asks or seen.imperative or seen.question_word)
    resumes, calls = float(words.resumes or seen.back_to), float(words.calls)
    visited, latest = situation.marks(frozenset(turn.visited)), situation.marks(turn.visited[:1])
    named, hits = situation.amounts(turn.named), situation.amounts(turn.hits)
    return {
        "visited": visited,
        "visited_resumes": visited * resumes,
        "visited_message": visited * situation.message,
        "latest": latest,
        "latest_resumes": latest * resumes,
        "latest_resumes_message": latest * resumes * situation.message,
        "visited_named_resumes": visited * named * resumes,
        "previous": situation.marks(turn.previous),
        "offered": situation.marks(turn.offered),
        "awaits": situation.marks((turn.awaiting,) if turn.awaiting else ()),
        "named": named * ongoing,
        "named_alone": named * ongoing * float(seen.rest <= 2),
        "named_calls": named * calls,
        "named_calls_brief": named * float(words.calls and seen.words <= 10),
        "hit": hits,
        "hit_sole": hits * float(len(turn.hits) == 1),
        "hit_asks": hits * asks,
        # Where the general agent has phrases, what they say counts as for any other agent.
        "general": situation.marks(situation.without_phrases & {turn.general}),
    }


def _has_active(situation: Situation) -> float:
    return float(situation.place(situation.turn.active) is not None)


def _novelty(turn: Turn) -> float:
    """Returns the matcher's novelty, reduced where a pattern or an agent's name matches, or an agent noted the thing."""
    named = max(turn.named.values(), default=0.0) if turn.wording.calls else 0.0
    evidence = max(named, _NOTED if turn.noted else 0.0, *turn.hits.values())
    return turn.message.match.novelty * (1.0 - min(evidence, 1.0))


def _feature_names() -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Returns the features' names, from a sample turn."""
    match = Match(("a",), np.ones(1), np.ones(1), 0.5, ())
    reading = TextReading("", np.zeros(1, np.float32), match, 0.5, CorrectedText(""))
    situation = build_situation(Turn(reading, read_message(""), active="a"), Roster(("a",), ("a",)), UNTRAINED)
    return tuple(_claims(situation)), tuple(turn_features(situation)), tuple(_conversation(situation, 0))


CLAIMS, TURN_FEATURES, CONVERSATION_FEATURES = _feature_names()
"""Names of the features, in order."""
