"""What lint says of patterns (behaviour E6)."""

from collections.abc import Mapping, Sequence

import pytest

from turnwise.facts.errors import PatternError
from turnwise.facts.tree import AgentCard, AgentTree, Pattern
from turnwise.learning.lint_examples import Finding
from turnwise.learning.lint_patterns import lint_patterns


def found(patterns: Mapping[str, Sequence[str | Pattern]], **examples: Sequence[str]) -> list[Finding]:
    cards = [AgentCard(name="root")]
    for name, regexes in patterns.items():
        given = tuple(each if isinstance(each, Pattern) else Pattern(regex=each) for each in regexes)
        cards.append(AgentCard(name=name, parent="root", patterns=given))
    return [*lint_patterns(AgentTree(cards), examples)]


def test_patterns_that_keep_apart_give_nothing() -> None:
    """E6"""
    assert found({"orders": [r"\border\b"], "bills": [r"\bbill\b"]}, orders=["my order"], bills=["a bill"]) == []


@pytest.mark.parametrize("regex", [".*", ".", r"\w", r"^.+$", r"(\s|\S)*", r"[^!]"])
def test_a_pattern_that_matches_anything(regex: str) -> None:
    """E6: an error, and told once: not as an overlap with all others too."""
    (finding,) = found({"a": [regex], "b": [r"\bbill\b"]}, b=["a bill"])
    assert (finding.code, finding.severity, finding.agents) == ("pattern.saturated", "error", ("a",))
    assert finding.evidence == (regex,)


def test_a_pattern_that_matches_much_of_what_others_have() -> None:
    """E6: many examples of its own are no mistake."""
    others = [f"please do {number}" for number in range(19)]
    (finding,) = found({"a": ["please"]}, a=["please stop"], b=others)
    assert (finding.code, finding.agents) == ("pattern.saturated", ("a", "b"))
    assert "20 of all 20 examples" in finding.problem
    assert found({"a": ["please"]}, a=[*others, "please stop"]) == []


def test_a_pattern_that_matches_only_what_belongs_to_another() -> None:
    """E6: without examples of its own agent nothing is known."""
    (finding,) = found({"a": ["refund"]}, a=["where is it"], b=["a refund please"])
    assert (finding.code, finding.severity, finding.agents) == ("pattern.stray", "error", ("a", "b"))
    assert finding.evidence == ("refund", "a refund please")
    assert found({"a": ["refund"]}, b=["a refund please"]) == []


def test_patterns_that_match_each_others_examples() -> None:
    """E6: the pair is named once, whichever pattern is the wider one."""
    (finding,) = found({"a": ["cancel"], "b": [r"order \d+"]}, a=["cancel order 17"], b=["order 9"])
    assert (finding.code, finding.severity, finding.agents) == ("pattern.overlap", "warning", ("a", "b"))
    assert finding.evidence == ("cancel order 17", "a: cancel", r"b: order \d+")


def test_patterns_that_match_what_the_other_spells_out() -> None:
    """E6: no example is needed to see it."""
    strong = Pattern(regex=r"\b(cancel|stop)\b.*\border\b", confidence=0.9)
    (finding,) = found({"a": [strong], "b": [r"\border\b"]})
    assert finding.agents == ("a", "b")
    assert "with the confidences 0.9 and 0.8" in finding.problem
    assert finding.evidence[:2] == ("cancel order", "stop order")


def test_many_agents_with_one_pattern_are_one_finding() -> None:
    """E6: not one for each pair of them."""
    agents = [f"a{number:02}" for number in range(30)]
    (finding,) = found({agent: [r"\bbill\b"] for agent in agents})
    assert finding.agents == tuple(agents)
    assert finding.problem == (
        "Patterns of a00, a01, a02, a03, a04 and 25 more match the same message, with the confidence 0.8."
    )
    assert finding.evidence == ("bill", r"a00, a01, a02, a03, a04 and 25 more: \bbill\b")


def test_some_who_meet_by_the_same_patterns_are_not_told_again() -> None:
    """E6: but by another pattern they are."""
    shared = {"a": ["bill"], "b": ["bill"]}
    third, fourth = {"c": ["bill please"]}, {"a": ["bill", "refund"], "b": ["bill", "refund"]}
    assert [each.agents for each in found({**shared, **third}, a=["a bill"])] == [("a", "b", "c")]
    both = found({**shared, **third, **fourth}, a=["a bill"])
    assert [each.agents for each in both] == [("a", "b", "c"), ("a", "b")]
    assert both[1].evidence == ("refund", "a and b: refund")


def test_inactive_patterns_do_not_count() -> None:
    """E6"""
    assert found({"a": [Pattern(regex=".*", active=False)]}) == []


def test_a_pattern_that_is_refused() -> None:
    """E6: is told as everywhere."""
    with pytest.raises(PatternError):
        found({"a": ["(?=x)"]})
