from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from turnwise.matching.match import Match
from turnwise.matching.spelling import CorrectedText
from turnwise.selection.contextual.belief import UNTRAINED
from turnwise.selection.contextual.features import DominatedCandidate, dominated_candidates, features
from turnwise.selection.contextual.situation import Roster, Situation, Turn, build_situation
from turnwise.selection.contextual.trained_model import load_shipped
from turnwise.selection.contextual.wording import read_message
from turnwise.selection.meaning import TextReading

AGENTS = ("billing", "appointments", "prescriptions", "lab")


def reading(text: str, *shares: float, alike: float = 0.5) -> TextReading:
    likely = np.array(shares)
    return TextReading(
        text, np.zeros(2, np.float32), Match(AGENTS, likely, alike * likely / likely.max(), 0.1, ()), 0.0, CorrectedText(text)
    )


def situation(text: str = "", *, alike: float = 0.5, **turn: Any) -> Situation:
    """Billing has the conversation; the message is about appointments."""
    message = reading(text, 0.02, 0.9, 0.05, 0.03, alike=alike)
    past = {
        "reply": reading("It was $80.", 0.97, 0.01, 0.01, 0.01),
        "active": "billing",
        "visited": ("prescriptions", "appointments"),
    }
    return build_situation(Turn(message, read_message(text), **(past | turn)), Roster(AGENTS, AGENTS), UNTRAINED)


def places(found: tuple[DominatedCandidate, ...], at: Situation) -> set[tuple[str, str]]:
    return {(at.candidates[each.place], at.candidates[each.by]) for each in found}


def test_who_is_behind_in_everything_is_outdone_and_the_active_agent_not_by_that() -> None:
    """C9: staying rests on more than the message."""
    at = situation()
    assert places(dominated_candidates(at), at) == {("prescriptions", "appointments"), ("lab", "appointments")}
    lead = next(each.lead for each in dominated_candidates(at) if at.candidates[each.place] == "prescriptions")
    assert lead == pytest.approx(np.log(0.9 / 0.05))


@pytest.mark.parametrize(
    ("text", "alike", "leaves"),
    [
        ("Can I have an appointment?", 0.85, True),
        ("book an appointment", 0.85, True),
        ("Can I have an appointment?", 0.7, False),
        ("the ninth in the morning", 0.85, False),
        ("can you?", 0.85, False),
    ],
)
def test_a_plain_request_to_another_outdoes_also_the_active_agent(text: str, alike: float, leaves: bool) -> None:
    """C9: nearly an example of another, and nothing of the active one's; an answer or a follow-up is no such request."""
    message = reading(text, 0.01, 0.97, 0.01, 0.01, alike=alike)
    at = build_situation(replace(situation(text).turn, message=message), Roster(AGENTS, AGENTS), UNTRAINED)
    assert (("billing", "appointments") in places(dominated_candidates(at), at)) is leaves


@pytest.mark.parametrize(
    "ahead",
    [
        {"named": {"prescriptions": 1.0}},
        {"hits": {"prescriptions": 0.8}},
        {"awaiting": "prescriptions"},
        {"offered": ("prescriptions", "lab")},
    ],
)
def test_one_thing_that_speaks_for_it_is_enough(ahead: dict[str, Any]) -> None:
    """C9, E5"""
    at = situation(**ahead)
    assert ("prescriptions", "appointments") not in places(dominated_candidates(at), at)


def test_a_message_that_is_like_no_example_outdoes_nobody_unless_it_names_the_agent() -> None:
    """C9: "back to that" is not about whoever it resembles by chance."""
    assert dominated_candidates(situation(alike=0.2)) == ()
    at = situation(alike=0.2, named={"appointments": 1.0})
    assert ("prescriptions", "appointments") in places(dominated_candidates(at), at)


def test_without_a_conversation_nobody_is_outdone() -> None:
    assert dominated_candidates(situation(active=None, visited=())) == ()


@pytest.mark.parametrize(
    "text",
    [
        "ok. now back to the appointment, can we make it 10 instead",
        "also, instead, going back to it: could you change the appointment?",
        "no wait, return to what I said before about the appointment, what about friday instead",
    ],
)
def test_no_heap_of_cues_puts_another_before_whom_the_message_is_about(text: str) -> None:
    """C9"""
    at = situation(text, named={"appointments": 1.0})
    scores = load_shipped().scores(features(at))
    shares = dict(zip(at.candidates, scores.agents.tolist(), strict=True))
    assert shares["appointments"] > 5 * max(shares["prescriptions"], shares["lab"])
