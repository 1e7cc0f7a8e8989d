"""Features of clauses, open matters and wrong choices (behaviour C9)."""

from typing import Any

import numpy as np
import pytest

from turnwise.matching.match import Match
from turnwise.matching.spelling import CorrectedText
from turnwise.selection.contextual.belief import UNTRAINED
from turnwise.selection.contextual.evidence import (
    clause_claims,
    evidence_features,
    matter_claims,
    rejected,
    repair_claims,
)
from turnwise.selection.contextual.explain import leave_reason
from turnwise.selection.contextual.situation import Clause, EarlierMessage, LeftMatter, Roster, Situation, Turn, build_situation
from turnwise.selection.contextual.wording import read_message, read_reply
from turnwise.selection.meaning import TextReading

LABELS = ("a", "b", "c")


def reading(*shares: float, text: str = "text", vector: tuple[float, float] = (1.0, 0.0)) -> TextReading:
    values = np.array(shares)
    return TextReading(text, np.array(vector, np.float32), Match(LABELS, values, values, 0.1, ()), 0.1, CorrectedText(text))


def situation(text: str, **more: Any) -> Situation:
    given: dict[str, Any] = {"active": "a", "reply": reading(0.6, 0.3, 0.1, vector=(0.0, 1.0)), **more}
    return build_situation(Turn(reading(0.4, 0.4, 0.2), read_message(text), **given), Roster(LABELS, LABELS), UNTRAINED)


def left(agent: str, said: str, *joined: float) -> LeftMatter:
    return LeftMatter(agent, read_reply(said), reading(0.2, 0.2, 0.6, text=said), reading(*joined))


def test_an_open_question_speaks_for_the_agent_that_asked_it() -> None:
    """C9: it was answered by its form, and joined with the message it is more that agent's than anybody's."""
    open_question = left("c", "Fine. When do you want to leave?", 0.1, 0.1, 0.8)
    found = matter_claims(situation("tomorrow", reply_wording=read_reply("Which one?"), matters=(open_question,)))
    assert [found[name].tolist() for name in ("matter", "matter_question", "matter_latest")] == [[0.0, 0.0, 1.0]] * 3
    assert found["matter_joined"][2] == pytest.approx(np.log(8.0))
    assert found["matter_echo"][2] == pytest.approx(1.0)
    assert not found["matter_closed"].any()
    known = evidence_features(situation("tomorrow", matters=(open_question,)), 0)
    assert (known["matters"], known["matter_best_fit"]) == (1.0, 1.0)


def test_without_open_matters_nothing_is_said() -> None:
    """C9"""
    assert not any(row.any() for row in matter_claims(situation("yes")).values())
    known = evidence_features(situation("yes"), 0)
    assert {known[name] for name in ("matters", "matter_best_fit", "matter_best_joined", "matter_best_echo")} == {0.0}


def test_a_matter_of_an_agent_that_is_not_eligible_does_not_count() -> None:
    """C9"""
    given = Turn(reading(0.4, 0.4, 0.2), read_message("yes"), active="a", matters=(left("c", "When?", 0.1, 0.1, 0.8),))
    found = build_situation(given, Roster(LABELS, ("a", "b")), UNTRAINED)
    assert found.matters == ()
    assert "c" not in found.candidates


def test_clauses_are_weighed_apart() -> None:
    """C9: an answer and a request for another agent."""
    clauses = (Clause(reading(0.8, 0.1, 0.1), False), Clause(reading(0.1, 0.1, 0.8), True))
    found = clause_claims(situation("Blue. And book a taxi", clauses=clauses))
    assert found["clause_first"].argmax() == 0
    assert found["clause_last"].argmax() == found["clause_asks"].argmax() == 2
    assert (found["clause_best"] >= found["clause_first"]).all()
    assert evidence_features(situation("Blue. And book a taxi", clauses=clauses), 0)["clause_fits"] < 0.0


def test_an_agent_that_disclaimed_a_matter_is_rejected() -> None:
    """C9: now, or some messages ago; also when the user complained of its answer."""
    past = (EarlierMessage(reading(0.1, 0.8, 0.1), read_message("a taxi"), "a"),)
    refused = situation("a taxi please", past=past, reply_wording=read_reply("I can only help with orders."))
    assert rejected(refused) == {"a"}
    assert repair_claims(refused)["rejected"].tolist() == [1.0, 0.0, 0.0]
    assert repair_claims(refused)["past_wrong"].argmax() == 1
    assert rejected(situation("that's not what I asked", past=past)) == {"a"}
    earlier = EarlierMessage(reading(0.1, 0.1, 0.8), read_message("hi"), "c", read_reply(""))
    disclaimed = past[0]._replace(agent="b", reply_wording=read_reply("That is not something I handle."))
    assert rejected(situation("a taxi", past=(disclaimed, earlier))) == {"c"}
    assert rejected(situation("a taxi", past=past)) == frozenset()


def test_the_reason_names_the_question_that_was_left_open() -> None:
    """C9"""
    open_question = left("c", "Fine. Shall I send a replacement?", 0.1, 0.1, 0.8)
    found = situation("yes please", visited=("c",), matters=(open_question,))
    assert leave_reason(found, "c", returns=True) == "returns to c: it asked “Shall I send a replacement?”."
    assert "it asked" not in leave_reason(found, "b", returns=False)


def test_the_reason_names_a_refusal_and_a_complaint() -> None:
    """C9"""
    refused = situation("a taxi please", reply_wording=read_reply("I can only help with orders."))
    assert leave_reason(refused, "b", returns=False) == "leaves a: a said that this is not its matter."
    complained = leave_reason(situation("that's not what I asked"), "b", returns=False)
    assert complained == "leaves a: the message says that it asked for something else."
