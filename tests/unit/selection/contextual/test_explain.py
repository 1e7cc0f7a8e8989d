from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from turnwise.matching.match import Match, Nearest
from turnwise.matching.spelling import CorrectedText
from turnwise.selection.contextual.belief import UNTRAINED
from turnwise.selection.contextual.explain import explained_candidates, leave_reason, stay_reason
from turnwise.selection.contextual.situation import Roster, Situation, Turn, build_situation
from turnwise.selection.contextual.trained_model import Scores
from turnwise.selection.contextual.wording import read_message, read_reply
from turnwise.selection.meaning import TextReading

LABELS = ("orders", "billing")


def situation(text: str, reply: str = "", smalltalk: float = 0.0, **more: Any) -> Situation:
    near = (Nearest("billing", "send the invoice", 0.83),)
    reading = TextReading(
        text,
        np.zeros(2, np.float32),
        Match(LABELS, np.array([0.3, 0.7]), np.array([0.2, 0.83]), 0.0, near),
        smalltalk,
        CorrectedText(text),
    )
    return build_situation(
        Turn(reading, read_message(text), reply_wording=read_reply(reply), **more), Roster(LABELS, LABELS), UNTRAINED
    )


@pytest.mark.parametrize(
    ("text", "reply", "smalltalk", "reason"),
    [
        ("12345", "What is your order number?", 0.0, "stays: short answer to a question of orders."),
        ("thanks a lot", "It is sent.", 0.0, "stays: thanks or goodbye to orders."),
        ("do you have any dreams at night", "It is sent.", 0.9, "stays: small talk while orders has the conversation."),
        ("it looks broken to them", "It is sent.", 0.0, "stays: follow-up that refers to what orders said."),
    ],
)
def test_why_it_stays(text: str, reply: str, smalltalk: float, reason: str) -> None:
    """C9"""
    assert stay_reason(situation(text, reply, smalltalk, active="orders")) == reason


def test_why_it_stays_with_who_waits() -> None:
    """C9"""
    assert (
        stay_reason(situation("12345", active="orders", awaiting="orders"))
        == "stays: short answer to orders, who waits for it."
    )


def test_why_it_goes() -> None:
    """C9: with the nearest example."""
    new = "leaves orders: new request, nearest example “send the invoice” (0.83)."
    assert leave_reason(situation("i need the invoice", active="orders"), "billing", returns=False) == new
    named = leave_reason(situation("let me talk to billing", active="orders", named={"billing": 1.0}), "billing", returns=False)
    assert named == "leaves orders: the message asks for billing by name."
    back = leave_reason(situation("back to the invoice", active="orders", visited=("billing",)), "billing", returns=True)
    assert back.startswith("returns to billing: the message takes up an earlier subject")
    assert leave_reason(situation("i need the invoice"), "billing", returns=False).startswith("routes to billing: new request")


def test_candidates_are_best_first_and_say_what_they_rest_on() -> None:
    """C10"""
    found = explained_candidates(situation("x", active="orders", visited=("billing",)), Scores(np.array([0.4, 0.6]), 0.0, 0.0))
    assert [each.agent for each in found] == ["billing", "orders"]
    assert "“send the invoice” (0.83)" in found[0].evidence
    assert "visited before" in found[0].evidence
    assert "has the conversation" in found[1].evidence


def test_what_another_user_wrote_is_not_quoted() -> None:
    """H4: users see reasons."""
    seen = situation("i need the invoice", active="orders")
    match = seen.turn.message.match
    private = match._replace(nearest=(match.nearest[0]._replace(private=True),))
    hidden = replace(seen, turn=replace(seen.turn, message=seen.turn.message._replace(match=private)))
    assert leave_reason(hidden, "billing", returns=False) == "leaves orders: new request, nearest learned example (0.83)."
    scores = Scores(np.array([0.2, 0.8]), 0.0, 0.0)
    (best, _) = explained_candidates(hidden, scores)
    assert best.evidence.startswith("a learned example (0.83); ")
