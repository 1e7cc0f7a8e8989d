"""Features of the message's clauses, of open matters, and of wrong choices that the conversation shows. Pure."""

import math
from typing import NamedTuple

import numpy as np

from turnwise.selection.contextual.belief import FLOOR
from turnwise.selection.contextual.situation import Floats, MatterScores, Situation
from turnwise.selection.contextual.wording import answer_fit

_SCALE = -math.log(FLOOR)
_BRIEF = 3


class _Best(NamedTuple):
    """The strongest open matter, feature by feature."""

    fit: float = 0.0
    joined: float = 0.0
    echo: float = 0.0


def clause_claims(situation: Situation) -> dict[str, Floats]:
    """Returns what the clauses say beyond the whole message, for each candidate. All 0 when there is a single clause."""
    found = [each.scores - situation.message for each in situation.clauses]
    none = np.zeros(len(situation.candidates))
    asking = [row for row, each in zip(found, situation.clauses, strict=True) if each.asks]
    return {
        "clause_first": found[0] if found else none,
        "clause_last": found[-1] if found else none,
        "clause_best": np.max(found, axis=0) if found else none,
        "clause_asks": asking[-1] if asking else none,
    }


def matter_claims(situation: Situation) -> dict[str, Floats]:
    """Returns what open matters say for the agents that were left with them."""
    seen, words = situation.turn.wording.features, situation.turn.wording
    asks = float(seen.asks or seen.imperative or seen.question_word)
    resumes, brief = float(words.resumes or seen.back_to), float(seen.rest <= _BRIEF)
    names = (
        "matter", "matter_question", "matter_closed", "matter_latest", "matter_fit", "matter_joined", "matter_echo",
        "matter_question_brief", "matter_question_asks", "matter_question_joined", "matter_resumes", "matter_latest_resumes",
        "matter_message",
    )  # fmt: skip
    found = {name: np.zeros(len(situation.candidates)) for name in names}
    for number, matter in enumerate(situation.matters):
        said, place = matter.said, matter.place
        question, joined = float(said.question), _lead(matter.joined, place)
        latest = float(number == 0)
        values = (
            1.0, question, float(said.done or said.offers), latest, matter_fit(situation, matter), joined,
            matter.echo - situation.echo, question * brief, question * asks, question * joined, resumes, latest * resumes,
            float(situation.message[place]),
        )  # fmt: skip
        for name, value in zip(names, values, strict=True):
            found[name][place] = value
    return found


def repair_claims(situation: Situation) -> dict[str, Floats]:
    """Returns what speaks for and against each candidate after a choice that turned out wrong."""
    turn = situation.turn
    wrong = float(turn.wording.complains or turn.reply_wording.disclaims)
    past = situation.past[0] if situation.past else np.zeros(len(situation.candidates))
    return {
        "rejected": situation.marks(rejected(situation)),
        "past_wrong": past * wrong,
        "message_wrong": situation.message * wrong,
    }


def rejected(situation: Situation) -> frozenset[str]:
    """Returns the agents that disclaimed a recent matter, or gave an answer that the user complained about."""
    turn = situation.turn
    found, said, complains = set(), turn.reply_wording, turn.wording.complains
    for past in turn.past:
        if past.agent is not None and (said.disclaims or complains):
            found.add(past.agent)
        said, complains = past.reply_wording, past.wording.complains
    return frozenset(found)


def evidence_features(situation: Situation, active: int) -> dict[str, float]:
    """Returns features for staying with the active agent."""
    turn = situation.turn
    fit, best = answer_fit(turn.reply_wording, turn.wording), _best_matter(situation)
    asking = [each.scores for each in situation.clauses if each.asks]
    clause = _lead(asking[-1], active) if asking else 0.0
    repeats = max((float(turn.message.vector @ past.reading.vector) for past in turn.past[:2]), default=0.0)
    other = float(np.delete(situation.message, active).max(initial=-_SCALE))
    complains, disclaims = float(turn.wording.complains), float(turn.reply_wording.disclaims)
    return {
        "fit": fit,
        "fit_other": fit * other,
        "kind": float(bool(turn.reply_wording.kind)),
        "clauses": float(len(situation.clauses) > 1),
        "clause_asks": float(bool(asking)),
        "clause_fits": clause,
        "complains": complains,
        "complains_other": complains * other,
        "disclaims": disclaims,
        "disclaims_other": disclaims * other,
        "repeats": repeats,
        "rejected": float(situation.candidates[active] in rejected(situation)),
        "matters": float(bool(situation.matters)),
        "matter_best_fit": best.fit,
        "matter_best_joined": best.joined,
        "matter_best_echo": best.echo,
    }


def matter_fit(situation: Situation, matter: MatterScores) -> float:
    """Returns how much better the message answers this matter's question than the last reply's."""
    turn = situation.turn
    return answer_fit(matter.said, turn.wording) - answer_fit(turn.reply_wording, turn.wording)


def _best_matter(situation: Situation) -> _Best:
    rows = [
        _Best(matter_fit(situation, each), _lead(each.joined, each.place), each.echo - situation.echo)
        for each in situation.matters
    ]
    return _Best(*(max(column) for column in zip(*rows, strict=True))) if rows else _Best()


def _lead(row: Floats, place: int) -> float:
    """Returns a candidate's lead over all others."""
    return float(row[place]) - float(np.delete(row, place).max(initial=-_SCALE))
