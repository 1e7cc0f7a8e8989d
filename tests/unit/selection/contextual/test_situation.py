import numpy as np
import pytest

from turnwise.matching.match import Match
from turnwise.matching.spelling import CorrectedText
from turnwise.selection.contextual.belief import CUES, FLOOR, UNTRAINED, TrackingWeights
from turnwise.selection.contextual.situation import MAX_CANDIDATES, EarlierMessage, Roster, Turn, build_situation
from turnwise.selection.contextual.wording import read_message
from turnwise.selection.meaning import TextReading


def reading(shares: dict[str, float], text: str = "text") -> TextReading:
    values = np.array(list(shares.values()))
    return TextReading(
        text, np.array([1.0, 0.0], np.float32), Match(tuple(shares), values, values, 0.1, ()), 0.0, CorrectedText(text)
    )


def test_who_may_not_be_chosen_has_no_share() -> None:
    """C20: the shares of the others sum to 1."""
    read = reading({"a": 0.6, "b": 0.3, "c": 0.1})
    roster = Roster(("a", "b", "c"), ("b", "c"))
    found = build_situation(Turn(read, read_message("text")), roster, UNTRAINED)
    assert found.candidates == ("b", "c")
    assert np.exp(found.message) == pytest.approx([0.75, 0.25])
    assert found.rest == pytest.approx(0.0)


def test_candidates_have_a_claim_of_some_kind() -> None:
    """C17: who is active, visited, named by the caller, or fits what was said before."""
    many = {f"a{number:02}": 1.0 for number in range(40)}
    shares = {name: share / sum(many.values()) for name, share in many.items()}
    before = reading({name: float(name == "a39") for name in shares})
    past = (EarlierMessage(before, read_message("text"), "a31"),)
    turn = Turn(
        reading(shares), read_message("text"), active="a30", visited=("a31",), previous=("a32",), hits={"a33": 0.9},
        named={"a34": 1.0}, awaiting="a35", offered=("a36",), general="a37", past=past,
    )  # fmt: skip
    found = build_situation(turn, Roster(tuple(shares), tuple(shares)), UNTRAINED)
    assert {"a30", "a31", "a32", "a33", "a34", "a35", "a36", "a37", "a39", "a00"} <= set(found.candidates)
    assert len(found.candidates) <= MAX_CANDIDATES
    assert found.rest == pytest.approx(1.0 - len(found.candidates) / 40)


def test_belief_goes_from_the_oldest_message_to_this_one() -> None:
    """C9: what was said with each reply counts at its own place."""
    began, went_on = reading({"a": 0.8, "b": 0.1, "c": 0.1}), reading({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    joined, other = reading({"a": 0.1, "b": 0.8, "c": 0.1}), reading({"a": 0.1, "b": 0.1, "c": 0.8})
    tracking = TrackingWeights(1.0, 0.5, 1.0, {**dict.fromkeys(CUES, 0.0), "one": -3.0})
    past = (
        EarlierMessage(went_on, read_message("blue"), "a", joined=joined),
        EarlierMessage(began, read_message("where is it"), "a"),
    )
    turn = Turn(went_on, read_message("at six"), joined=other, active="a", past=past)
    found = build_situation(turn, Roster(("a", "b", "c"), ("a", "b", "c")), tracking)
    begins = 1.0 / (1.0 + np.exp(3.0))
    logs = np.log([0.8, 0.1, 0.1])
    for each in (joined, other):
        shares = np.exp(logs) / np.exp(logs).sum()
        prior = (1.0 - begins) * shares + begins / 3
        logs = np.log(prior) + np.log(each.match.probabilities)
    order = [found.candidates.index(name) for name in ("a", "b", "c")]
    assert np.exp(found.prior)[order] == pytest.approx(prior)
    assert np.exp(found.belief)[order] == pytest.approx(np.exp(logs) / np.exp(logs).sum())


def test_only_who_may_be_chosen_tells_how_plain_a_message_is() -> None:
    """C20"""
    read = reading({"a": 0.1, "b": 0.3, "c": 0.6})
    assert Roster(("a", "b", "c"), ("a", "b")).highest(read.match) == pytest.approx((0.75, 0.3))
    assert Roster(("a", "b", "c"), ("a", "b", "c")).highest(read.match) == pytest.approx((0.6, 0.6))
    assert Roster(("a",), ()).highest(reading({"a": 1.0}).match) == (0.0, 0.0)


def test_without_any_label_but_with_a_past() -> None:
    past = (EarlierMessage(reading({}), read_message("text"), "a"),)
    assert (
        build_situation(Turn(reading({}), read_message("text"), past=past), Roster((), ("a", "b")), UNTRAINED).candidates == ()
    )


def test_an_agent_without_a_label_has_the_least_share() -> None:
    found = build_situation(
        Turn(reading({"a": 1.0}), read_message("text"), active="new"), Roster(("a",), ("a", "new")), UNTRAINED
    )
    assert found.candidates == ("new", "a")
    assert np.exp(found.message) == pytest.approx([FLOOR, 1.0])


def test_names_of_nobody_are_no_candidates() -> None:
    turn = Turn(reading({"a": 1.0}), read_message("text"), active="ghost", visited=("ghost",), hits={"ghost": 1.0})
    assert build_situation(turn, Roster(("a",), ("a",)), UNTRAINED).candidates == ("a",)


def test_without_any_label() -> None:
    found = build_situation(Turn(reading({}), read_message("text"), active="a"), Roster((), ("a", "b")), UNTRAINED)
    assert found.candidates == ("a",)
    assert (found.best, found.entropy, found.agents) == (0.0, 0.0, 0)


def test_all_that_may_be_chosen_count_alike_when_the_match_says_nothing() -> None:
    found = build_situation(
        Turn(reading({"a": 0.0, "b": 0.0, "c": 1.0}), read_message("text")), Roster(("a", "b", "c"), ("a", "b")), UNTRAINED
    )
    assert np.exp(found.message) == pytest.approx([0.5, 0.5])
