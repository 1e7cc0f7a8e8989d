"""Texts that a pattern means to match (behaviour E6)."""

import pytest
from hypothesis import given, strategies as st

from turnwise.learning.lint_patterns import SAMPLES, samples_of
from turnwise.matching.patterns import PatternIndex

SPELLED = {
    r"\btrack(ing)?\b": ("tracking", "track"),
    r"\b(where|find)\b.*\b(order|parcel)\b": ("where order", "where parcel", "find order", "find parcel"),
    r"^cancel (?:my )?order\W*$": ("cancel my order", "cancel order"),
    r"(?i)return|refund": ("return", "refund"),
    r"(?P<what>bus|train) to [A-Z]\w+": ("bus to Aa", "train to Aa"),
    r"\d{4}-\d\d": ("7777-77",),
    r"how (much|many)\?": ("how much?", "how many?"),
    r"[^x]fly": ("-fly",),
}


@pytest.mark.parametrize("regex", SPELLED)
def test_a_pattern_spells_out_texts_that_it_matches(regex: str) -> None:
    """E6"""
    assert samples_of(regex) == SPELLED[regex]
    index = PatternIndex([("a", regex, 0.9)])
    assert [text for text in SPELLED[regex] if not index.match(text)] == []


@pytest.mark.parametrize("regex", [".*", r"\p{Greek}+", "(", "x)", "[[:alpha:]]", "(?<=a)b", r"\1", "a{x}", "", "[a"])
def test_what_is_not_understood_has_no_texts(regex: str) -> None:
    """E6: none rather than wrong ones; `.*` spells nothing."""
    assert samples_of(regex) == ()


def test_there_are_few(tmp_path: object) -> None:
    """E6"""
    assert len(samples_of("(a|b|c|d)(a|b|c|d)(a|b|c|d)(a|b|c|d)")) == SAMPLES
    assert samples_of("a{1000}") == ("a" * 20,)
    assert samples_of("(" * 5_000 + "a" + ")" * 5_000) == ()


@given(st.text(alphabet="ab|()[]{}*+?\\.^$d1,-:P<>", max_size=20))
def test_any_text_is_allowed(regex: str) -> None:
    """E6: whatever stands there, it ends, and gives single-line texts."""
    assert all("\n" not in text and len(text) < 20_000 for text in samples_of(regex))
