"""Accuracy of all decisions from the labels of a few (behaviour H2)."""

import random
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

import pytest

from turnwise.facts.labels import Label
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.learning.estimates import Estimate, Estimator, Judged, judged, wilson
from turnwise.learning.measures import Bin
from turnwise.ports.decisions import Decision

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def label(right: bool, *, random: bool = True, probability: float | None = None, confidence: float = 0.9) -> Judged:
    expected = "a" if right else "b"
    return Judged(chosen="a", expected=expected, confidence=confidence, is_random=random, probability=probability)


def estimator(labels: Iterable[Judged]) -> Estimator:
    found = Estimator()
    for each in labels:
        found.add(each)
    return found


def accuracy(labels: Iterable[Judged]) -> Estimate | None:
    return estimator(labels).accuracy()


def calibration(labels: Iterable[Judged]) -> tuple[list[Bin], float | None]:
    return estimator(labels).calibration()


def test_complaints_say_nothing_of_accuracy() -> None:
    assert accuracy([label(False, random=False) for _ in range(50)]) is None
    found = accuracy([*[label(False, random=False) for _ in range(50)], *[label(True) for _ in range(9)], label(False)])
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
            labels.append(label(draw.random() < (0.9 if sure else 0.5), random=False, probability=probability))
    plain = sum(each.is_right for each in labels) / len(labels)
    found = accuracy(labels)
    assert found is not None
    assert plain < 0.65
    assert found.share == pytest.approx(0.82, abs=0.03)
    assert found.low < 0.82 < found.high
    assert found.how == "inverse probability"


def test_calibration_is_the_distance_between_confidence_and_right() -> None:
    bins, distance = calibration([label(number < 5, confidence=0.85) for number in range(10)])
    assert [(each.cases, each.accuracy) for each in bins] == [(10, 0.5)]
    assert bins[0].confidence == pytest.approx(0.85)
    assert distance == pytest.approx(0.35)
    assert calibration([label(True, random=False)]) == ([], None)


def test_wilson_stays_inside_and_narrows() -> None:
    assert wilson(1.0, 10)[1] == 1.0
    assert 0.75 < wilson(1.0, 10)[0] < 1.0
    low, high = wilson(0.5, 10)
    assert wilson(0.5, 1_000)[0] > low
    assert wilson(0.5, 1_000)[1] < high


def test_the_label_that_counts_judges() -> None:
    """H2: nobody's is the default agent's; unsure labels judge nothing; a question is no agent."""

    def found(*labels: Label, outcome: Literal["chosen", "clarify"] = "chosen") -> tuple[str | None, str, bool] | None:
        selection = Selection(agent="desk", method="m", confidence=0.5, outcome=outcome, fingerprint="f")
        decision = Decision(SessionKey("app", "ada", "s"), 1, "i", "text", selection, NOON, labels=labels)
        each = judged(decision, "desk")
        return None if each is None else (each.chosen, each.expected, each.is_right)

    by_user, by_operator = Label(source="user", agent="a"), Label(agent=None)
    assert found() is None
    assert found(by_user) == ("desk", "a", False)
    assert found(by_user, by_operator) == ("desk", "desk", True)
    assert found(Label(source="user", agent=None, unsure=True)) is None
    assert found(by_user, outcome="clarify") == (None, "a", False)
