"""The confusion map (behaviour E3)."""

from collections import Counter

from turnwise.learning.measures import Outcome
from turnwise.learning.report.plots import AGENTS, heat_map, label, ordered


def outcomes(*triples: tuple[str | None, str | None, int]) -> list[Outcome]:
    return [
        Outcome(f"{expected} {chosen}", expected, chosen or "root", chosen)
        for expected, chosen, count in triples
        for _ in range(count)
    ]


def test_who_is_mistaken_for_each_other_stands_together() -> None:
    """E3: the strongest bonds first, whichever way the mistakes go; who is never mistaken is not shown."""
    counts: Counter[tuple[str | None, str | None]] = Counter(
        {("a", "z"): 5, ("z", "a"): 4, ("b", "y"): 3, ("y", "y"): 9, ("c", "c"): 7, (None, "b"): 1}
    )
    assert ordered(counts) == ["a", "z", "b", "y", None]
    assert ordered(Counter({("a", "a"): 3})) == []


def test_only_the_most_confused_are_shown_and_the_rest_is_others() -> None:
    """E3: a row's mistakes with those not shown are counted in one column."""
    many = [(f"a{number:03}", "a000" if number else "a001", 2) for number in range(AGENTS)]
    drawn = heat_map(outcomes(*many, ("a000", "others", 1), ("a000", "a000", 5)))
    assert drawn is not None
    assert drawn.count('class="lane"') == AGENTS
    assert "a000 → others: 1 of 8 (12.5 %)" in drawn
    assert "a000 → a001: 2 of 8 (25.0 %)" in drawn
    assert "a000 → a000: 5 of 8 (62.5 %)" in drawn


def test_without_mistakes_there_is_no_map() -> None:
    """E3"""
    assert heat_map(outcomes(("a", "a", 3))) is None
    assert heat_map([]) is None


def test_names_are_cut_and_nobody_is_named() -> None:
    """E3"""
    assert label(None) == "out of scope"
    assert label("x" * 30) == "x" * 23 + "…"
    assert label("x" * 30, None) == "x" * 30
