"""What a decision amounts to (behaviour E3)."""

from typing import Any

import pytest

from turnwise.facts.selections import Candidate, Selection, Verdict
from turnwise.learning.measures import Outcome, chosen_of, novelty_of, ranking_of


def verdict(selector: str, *scores: tuple[str, float], **more: Any) -> Verdict:
    return Verdict(selector=selector, candidates=tuple(Candidate(agent=a, score=s) for a, s in scores), **more)


def selection(agent: str, *verdicts: Verdict, **more: Any) -> Selection:
    return Selection(agent=agent, **{"method": "m", "confidence": 0.7, "reason": "", "verdicts": verdicts, **more})


def test_the_default_agent_or_a_question_chooses_nobody() -> None:
    """E3"""
    assert chosen_of(selection("a"), "root") == "a"
    assert chosen_of(selection("root"), "root") is None
    assert chosen_of(selection("a", outcome="clarify"), "root") is None


def test_the_chosen_one_leads_then_who_was_ranked_last() -> None:
    """E3: each agent once, with the score of the verdict that counts more; the default agent is nobody."""
    early = verdict("patterns", ("c", 0.9), ("b", 0.8))
    late = verdict("contextual", ("b", 0.2), ("a", 0.3), ("root", 0.9))
    assert ranking_of(selection("d", early, late), "root") == (("d", 0.7), ("a", 0.3), ("b", 0.2), ("c", 0.9))
    assert ranking_of(selection("root", early, late), "root") == (("a", 0.3), ("b", 0.2), ("c", 0.9))
    assert ranking_of(selection("root"), "root") == ()


def test_novelty_is_what_a_verdict_says_else_what_the_best_leaves_over() -> None:
    """E3: the last that says it."""
    told = [verdict("x", novelty=0.1), verdict("y", ("a", 0.9), novelty=0.0), verdict("z")]
    assert novelty_of(selection("a", *told), "root") == 0.0
    assert novelty_of(selection("root", verdict("z", ("a", 0.25))), "root") == pytest.approx(0.75)
    assert novelty_of(selection("root"), "root") == 1.0


def test_small_talk_that_the_default_agent_takes_is_for_nobody() -> None:
    """E3: for nobody as a request, or no request; both cannot be."""
    chatting = {"method": "smalltalk", "confidence": 0.8}
    said = verdict("contextual", ("a", 0.9), novelty=0.15)
    assert novelty_of(selection("root", said, **chatting), "root") == pytest.approx(0.95)
    assert novelty_of(selection("host", said, **chatting), "root") == 0.15


def test_the_best_is_known_without_a_choice() -> None:
    """E3"""
    outcome = Outcome("t", "a", "root", None, (("a", 0.4), ("b", 0.3)))
    assert (outcome.right, outcome.best, outcome.confidence) == (False, "a", 0.4)
    assert (Outcome("t", None, "root", None).best, Outcome("t", None, "root", None).confidence) == (None, 0.0)
