"""Accuracy of all decisions from the labels of a few (behaviour H2)."""

import random
from datetime import UTC, datetime

import pytest

from turnwise.facts.labels import Label, LabelledDecision
from turnwise.facts.sessions import SessionKey
from turnwise.learning.estimates import accuracy, calibration, wilson
from turnwise.learning.judged import Judged, judged_decisions

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def judged(right: bool, *, random: bool = True, probability: float | None = None, confidence: float = 0.9) -> Judged:
    return Judged(
        key=SessionKey("app", "ada", "s"),
        sequence=1,
        chosen="a",
        expected="a" if right else "b",
        method="m",
        confidence=confidence,
        at=NOON,
        is_random=random,
        probability=probability,
    )


def test_complaints_say_nothing_of_accuracy() -> None:
    assert accuracy([judged(False, random=False) for _ in range(50)]) is None
    found = accuracy([*[judged(False, random=False) for _ in range(50)], *[judged(True) for _ in range(9)], judged(False)])
    assert found is not None
    assert (found.share, found.labels, found.how) == (0.9, 10, "random")
    assert found.low < 0.9 < found.high


def test_inverse_probability_undoes_a_review_of_the_doubtful() -> None:
    """9 of 10 sure decisions are right, and half of the doubtful ones; the doubtful are labelled ten times as often."""
    draw = random.Random(1)
    labels = []
    for _ in range(20_000):
        sure = draw.random() < 0.8
        probability = 0.05 if sure else 0.5
        if draw.random() < probability:
            labels.append(judged(draw.random() < (0.9 if sure else 0.5), random=False, probability=probability))
    plain = sum(each.is_right for each in labels) / len(labels)
    found = accuracy(labels)
    assert found is not None
    assert plain < 0.65
    assert found.share == pytest.approx(0.82, abs=0.03)
    assert found.low < 0.82 < found.high
    assert found.how == "inverse probability"


def test_calibration_is_the_distance_between_confidence_and_right() -> None:
    bins, distance = calibration([judged(number < 5, confidence=0.85) for number in range(10)])
    assert [(each.cases, each.accuracy) for each in bins] == [(10, 0.5)]
    assert bins[0].confidence == pytest.approx(0.85)
    assert distance == pytest.approx(0.35)
    assert calibration([judged(True, random=False)]) == ([], None)


def test_wilson_stays_inside_and_narrows() -> None:
    assert wilson(1.0, 10)[1] == 1.0
    assert 0.75 < wilson(1.0, 10)[0] < 1.0
    low, high = wilson(0.5, 10)
    assert wilson(0.5, 1_000)[0] > low
    assert wilson(0.5, 1_000)[1] < high


def test_the_label_that_counts_judges() -> None:
    """H2: nobody's is the default agent's; unsure labels judge nothing; a question is no agent."""

    def labelled(label: Label, outcome: str = "chosen", session: str = "s") -> LabelledDecision:
        return LabelledDecision(
            key=SessionKey("app", "ada", session),
            sequence=1,
            invocation_id="i",
            agent="desk",
            method="m",
            confidence=0.5,
            outcome=outcome,
            fingerprint="f",
            decided_at=NOON,
            label=label,
        )

    def only(*labels: LabelledDecision) -> list[tuple[str | None, str, bool]]:
        return [(each.chosen, each.expected, each.is_right) for each in judged_decisions(labels, "desk").values()]

    by_user, by_operator = Label(source="user", agent="a"), Label(agent=None)
    assert only(labelled(by_user)) == [("desk", "a", False)]
    assert only(labelled(by_user), labelled(by_operator)) == [("desk", "desk", True)]
    assert only(labelled(Label(source="user", agent=None, unsure=True))) == []
    assert only(labelled(by_user, "clarify")) == [(None, "a", False)]
