import numpy as np
import pytest

from turnwise.matching.match import Match
from turnwise.selection.contextual.situation import CANDIDATES, FLOOR, Past, Roster, Turn, situate
from turnwise.selection.contextual.wording import wording
from turnwise.selection.meaning import Reading


def reading(shares: dict[str, float], text: str = "text") -> Reading:
    values = np.array(list(shares.values()))
    return Reading(text, np.array([1.0, 0.0], np.float32), Match(tuple(shares), values, values, 0.1, ()), 0.0)


def test_who_may_not_be_chosen_has_no_share() -> None:
    """C20: the shares of the others sum to 1."""
    read = reading({"a": 0.6, "b": 0.3, "c": 0.1})
    roster = Roster(("a", "b", "c"), ("b", "c"))
    found = situate(Turn(read, wording("text")), roster)
    assert found.candidates == ("b", "c")
    assert np.exp(found.message) == pytest.approx([0.75, 0.25])
    assert found.rest == pytest.approx(0.0)


def test_candidates_have_a_claim_of_some_kind() -> None:
    """C17: who is active, visited, named by the caller, or fits what was said before."""
    many = {f"a{number:02}": 1.0 for number in range(40)}
    shares = {name: share / sum(many.values()) for name, share in many.items()}
    before = reading({name: float(name == "a39") for name in shares})
    turn = Turn(
        reading(shares), wording("text"), active="a30", visited=("a31",), previous=("a32",), hits={"a33": 0.9},
        named={"a34": 1.0}, awaiting="a35", offered=("a36",), general="a37", past=(Past(before, wording("text"), "a31"),),
    )  # fmt: skip
    found = situate(turn, Roster(tuple(shares), tuple(shares)))
    assert {"a30", "a31", "a32", "a33", "a34", "a35", "a36", "a37", "a39", "a00"} <= set(found.candidates)
    assert len(found.candidates) <= CANDIDATES
    assert found.rest == pytest.approx(1.0 - len(found.candidates) / 40)


def test_an_agent_without_a_label_has_the_least_share() -> None:
    found = situate(Turn(reading({"a": 1.0}), wording("text"), active="new"), Roster(("a",), ("a", "new")))
    assert found.candidates == ("new", "a")
    assert np.exp(found.message) == pytest.approx([FLOOR, 1.0])


def test_names_of_nobody_are_no_candidates() -> None:
    turn = Turn(reading({"a": 1.0}), wording("text"), active="ghost", visited=("ghost",), hits={"ghost": 1.0})
    assert situate(turn, Roster(("a",), ("a",))).candidates == ("a",)


def test_without_any_label() -> None:
    found = situate(Turn(reading({}), wording("text"), active="a"), Roster((), ("a", "b")))
    assert found.candidates == ("a",)
    assert (found.best, found.entropy, found.agents) == (0.0, 0.0, 0)


def test_all_that_may_be_chosen_count_alike_when_the_match_says_nothing() -> None:
    found = situate(Turn(reading({"a": 0.0, "b": 0.0, "c": 1.0}), wording("text")), Roster(("a", "b", "c"), ("a", "b")))
    assert np.exp(found.message) == pytest.approx([0.5, 0.5])
