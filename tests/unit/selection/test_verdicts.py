"""Making sure of verdicts that others made (C20, E1)."""

import pytest

from turnwise.facts.selections import Candidate, Exclusion, Verdict
from turnwise.selection.verdicts import MAX_RECORDED, abstained, checked_verdict, chosen, shortened
from turnwise.testing.selector_suite import request_for, sample_tree

REQUEST = request_for(sample_tree(), "hi")


def pick(agent: str | None = "orders", **fields: object) -> Verdict:
    return Verdict.model_validate({"selector": "theirs", "outcome": "chosen", "agent": agent, "method": "m", **fields})


def test_a_good_verdict_stays_as_it_is_under_the_stages_name() -> None:
    verdict = chosen("theirs", "orders", method="m", confidence=0.5, reason="r", position=3, ignored=("x",))
    assert checked_verdict(verdict, REQUEST, "ours") == verdict.replace(selector="ours")
    passed = abstained("theirs", "r", passed_over=(Exclusion(agent="a", rule="unknown"),))
    assert checked_verdict(passed, REQUEST, "theirs") == passed


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        (None, "It returned NoneType instead of a Verdict, so it was passed over."),
        ("orders", "It returned str instead of a Verdict, so it was passed over."),
        (pick(None), "It chose without naming an agent, so it was passed over."),
        (pick("retired"), "It chose retired, who may not be chosen here, so it was passed over."),
        (pick("gh\nost"), "It chose gh�ost, who may not be chosen here, so it was passed over."),
        (
            Verdict(selector="theirs", outcome="clarify", candidates=(Candidate(agent="retired", score=1.0),)),
            "It wanted to clarify without offering anybody who may be chosen, so it was passed over.",
        ),
    ],
)
def test_what_breaks_the_rules_is_an_abstention_that_says_so(verdict: object, reason: str) -> None:
    """C20: nobody ineligible is chosen, whoever says so."""
    found = checked_verdict(verdict, REQUEST, "theirs")
    assert (found.outcome, found.agent, found.method, found.position, found.reason) == ("abstained", None, None, None, reason)


def test_a_rejected_choice_moves_no_place() -> None:
    assert checked_verdict(pick("retired", position=4), REQUEST, "theirs").position is None


def test_only_the_eligible_are_offered() -> None:
    """E5"""
    offered = tuple(Candidate(agent=name, score=0.5) for name in ("retired", "orders", "ghost", "returns"))
    found = checked_verdict(Verdict(selector="theirs", outcome="clarify", candidates=offered), REQUEST, "theirs")
    assert [each.agent for each in found.candidates] == ["orders", "returns"]


@pytest.mark.parametrize(("number", "kept"), [(1.5, 1.0), (-1.0, 0.0), (float("nan"), 0.0), (float("inf"), 0.0), (0.3, 0.3)])
def test_numbers_are_brought_into_bounds(number: float, kept: float) -> None:
    found = checked_verdict(pick(confidence=number, candidates=(Candidate(agent="orders", score=number),)), REQUEST, "theirs")
    assert (found.confidence, found.candidates[0].score) == (kept, kept)
    assert Verdict.model_validate_json(found.model_dump_json()) == found


def test_a_record_stays_small() -> None:
    many = tuple(Candidate(agent="orders", score=0.5) for _ in range(500))
    found = checked_verdict(pick(candidates=many, ignored=("x",) * 500, reason="r" * 10_000), REQUEST, "theirs")
    assert (len(found.candidates), len(found.ignored), len(found.reason)) == (MAX_RECORDED, MAX_RECORDED, 500)


def test_a_choice_without_a_method_gets_the_stages_name() -> None:
    verdict = Verdict(selector="theirs", outcome="chosen", agent="orders")
    assert checked_verdict(verdict, REQUEST, "ours").method == "ours"


def test_what_somebody_wrote_is_shown_short_and_on_one_line() -> None:
    assert shortened("plain") == "plain"
    assert shortened("a\nb\x1b[31m") == "a�b�[31m"
    assert len(shortened("x" * 500)) == 65
