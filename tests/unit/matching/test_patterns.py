"""The pattern index: it finds what RE2 finds one by one, and refuses with a cause and a fix."""

import re

import pytest
import re2
from hypothesis import given, settings, strategies as st

from turnwise.facts.errors import PatternError
from turnwise.matching.normalize import normalize
from turnwise.matching.patterns import MATCHED_CHARACTERS, PATTERN_CHARACTERS, Hit, PatternIndex


def labels(index: PatternIndex, text: str) -> list[str]:
    return [hit.label for hit in index.match(text)]


def test_the_best_pattern_of_a_label_counts_sorted_by_confidence() -> None:
    """C3"""
    index = PatternIndex(
        [("b", "order", 0.5), ("a", "order", 0.9), ("b", "my order", 0.8), ("c", "order", 0.9), ("d", "x", 1.0)]
    )
    assert index.match("Where is my order?") == [Hit("a", 0.9, "order"), Hit("c", 0.9, "order"), Hit("b", 0.8, "my order")]
    assert len(index) == 5


def test_of_equal_patterns_the_first_is_named() -> None:
    """E9"""
    assert PatternIndex([("a", "x+", 0.5), ("a", "x", 0.5)]).match("x") == [Hit("a", 0.5, "x+")]


@pytest.mark.parametrize(
    ("regex", "text", "matches"),
    [
        ("order", "ORDER", True),
        ("ÉTÉ", "l'été", True),
        ("STRASSE", "strasse", True),
        (r"\bhi\b", "shipment", False),
        (r"\bhi\b", "oh HI there", True),
        ("cafe\u0301", "café", True),
        ("café", "cafe\u0301", True),
        ("order", "ｏｒｄｅｒ", True),
        ("می\u200cخواهم", "می\u200cخواهم", True),
        ("❤\ufe0f", "❤", True),
        ("^order status$", "  order \n\t status ", True),
        (r"\d+", "no digits", False),
        (r"(?-i)Order", "order", False),
        (r"\p{Greek}", "λ", True),
        ("a.c", "a\x00b\x07c", True),
        ("x*", "", True),
        ("x", "", False),
        ("\ufffd", "half \ud83d", True),
    ],
)
def test_what_matches(regex: str, text: str, matches: bool) -> None:
    """C2, C3"""
    assert labels(PatternIndex([("a", regex, 0.8)]), text) == (["a"] if matches else [])


ATOMS = st.sampled_from(
    ["a", "b", "ab", "B", "é", "ß", "ſ", "K", "İ", ".", r"\w", r"\d", r"\b", "^", "$", "(a|b)", "[^a]", " ", "1", "x*"]
)
REGEX = st.lists(st.tuples(ATOMS, st.sampled_from(["", "", "+", "?", "{2}"])), min_size=1, max_size=4).map(
    lambda parts: "".join(atom + (repeat if atom not in {r"\b", "^", "$", "x*"} else "") for atom, repeat in parts)
)


@given(st.lists(REGEX, min_size=1, max_size=6), st.text(st.sampled_from("abABéßſKİ 1x\nsi"), max_size=12))
@settings(max_examples=100)
def test_all_at_once_finds_what_one_by_one_finds(regexes: list[str], text: str) -> None:
    """C3: against RE2 asked for each pattern alone."""
    options = re2.Options()
    options.case_sensitive = False
    alone = {str(i) for i, regex in enumerate(regexes) if re2.compile(regex, options).search(normalize(text))}
    together = {hit.label for hit in PatternIndex((str(i), regex, 0.5) for i, regex in enumerate(regexes)).match(text)}
    assert together == alone


def test_thousands_of_labels_are_found_across_several_automata() -> None:
    """C3: thousands of agents."""
    index = PatternIndex((f"agent-{i}", rf"\bword{i}\b", 0.8) for i in range(7_000))
    assert labels(index, "word3 and word6999 and WORD3000, not sword5") == ["agent-3", "agent-3000", "agent-6999"]


def test_literals_too_many_for_one_automaton_are_split() -> None:
    rare = ["".join(chr(0x4E00 + (i * 7 + j * 131) % 20_000) for j in range(300)) for i in range(190)]
    index = PatternIndex((str(i), regex, 0.8) for i, regex in enumerate(rare))
    assert labels(index, f"x{rare[7]}y{rare[180]}") == ["7", "180"]


def test_no_patterns_match_nothing() -> None:
    assert PatternIndex([]).match("anything") == []


@pytest.mark.parametrize("text", ["x" * 10_000_000, "\x00" * 10_000_000, "\ufdfa" * 1_000_000, "\ud800" * 1_000_000])
def test_a_huge_text_costs_what_its_beginning_costs(text: str) -> None:
    index = PatternIndex([("a", "^x", 0.8), ("b", "needle", 0.8)])
    assert "b" not in labels(index, text + "needle")
    assert labels(index, "needle" + text)[-1:] == ["b"]
    assert labels(index, " " * MATCHED_CHARACTERS + "needle") == []


@pytest.mark.parametrize(
    ("regex", "cause", "fix"),
    [
        ("(?=order)", "look-around", "without a condition"),
        ("(?<!my )order", "look-around", "without a condition"),
        (r"(a)\1", "back-reference", "Write out"),
        (r"order\Z", r"\Z is not supported", r"\z"),
        ("a++", "possessive", "Leave them out"),
        ("(?>a)", "atomic", "Leave them out"),
        ("a{1001}", "1000 times", "smaller number"),
        (r"\pL{1000}", "too much memory", "Shorten"),
        ("(", "missing )", "RE2"),
        ("[z-a]", "invalid character class range", "RE2"),
        ("", "empty", "Write what"),
        ("\ud800", "not valid Unicode", "surrogate"),
    ],
)
def test_what_is_refused_says_whose_it_is_why_and_what_to_do(
    regex: str, cause: str, fix: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PatternError) as caught:
        PatternIndex([("good", "x", 0.5), ("returns", regex, 0.5)])
    assert "'returns'" in caught.value.problem
    assert cause in caught.value.problem
    assert fix in caught.value.fix
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("confidence", [-0.1, 1.5, float("nan"), float("inf")])
def test_a_confidence_is_0_to_1(confidence: float) -> None:
    with pytest.raises(PatternError, match="confidence"):
        PatternIndex([("a", "x", confidence)])


def test_a_huge_pattern_is_refused_and_shown_in_short() -> None:
    """A pattern of 10 MB."""
    with pytest.raises(PatternError) as caught:
        PatternIndex([("a", "x" * 10_000_000, 0.5)])
    assert len(str(caught.value)) < 300
    assert "10000000 characters" in str(caught.value)
    longest = "x" * PATTERN_CHARACTERS
    assert labels(PatternIndex([("a", longest, 0.5)]), longest) == ["a"]


def test_too_many_patterns_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.matching.patterns.PATTERN_COUNT", 3)
    with pytest.raises(PatternError, match="more than 3 patterns"):
        PatternIndex((str(i), "x", 0.5) for i in range(4))


def test_no_pattern_makes_matching_slow() -> None:
    """What takes a backtracking engine for ever ends at once, or this test never does."""
    index = PatternIndex([("a", "(a+)+$", 0.5), ("b", "(a|a)*b", 0.5), ("c", "(.*a){12}z", 0.5)])
    assert labels(index, "a" * 9_000 + "!") == []
    assert re.search("(a+)+$", "aaaa!") is None


def _made_of(index: PatternIndex) -> int:
    """Returns how many patterns the index itself has compiled."""
    return sum(len(entries) for entries, _ in index._filters)


def _made(patterns: list[tuple[str, str, float]], before: PatternIndex | None = None) -> PatternIndex | str:
    """An index, or why it is refused."""
    try:
        return PatternIndex(patterns, before)
    except PatternError as error:
        return str(error)


_REGEX = st.sampled_from(["x", "y+", "z", "xy", "[", r"\bz"])
_SOME = st.lists(st.tuples(st.sampled_from("abcdefgh"), _REGEX, st.just(0.5)), max_size=8)


@given(st.lists(_SOME, max_size=6), st.sampled_from(["", "x", "zz xy", "y z"]))
def test_an_index_of_changed_patterns_is_as_one_made_anew(steps: list[list[tuple[str, str, float]]], text: str) -> None:
    """F4: after any number of changes; what is refused is refused for the same reason."""
    others = [(f"other {number}", "x" * (number + 1), 0.5) for number in range(150)]
    index = PatternIndex(others)
    for number, step in enumerate(steps):
        anew, made = _made([*step, *others[number:]]), _made([*step, *others[number:]], index)
        if isinstance(made, str) or isinstance(anew, str):
            assert made == anew
        else:
            index = made
            assert (index.match(text), len(index)) == (anew.match(text), len(anew))


def test_only_changed_patterns_are_compiled() -> None:
    """F4: until most are others."""
    patterns = [(f"agent {number}", f"word{number}", 0.5) for number in range(300)]
    index = first = PatternIndex(patterns)
    for number in range(100):
        patterns[number] = (f"agent {number}", f"other{number}", 0.5)
        index = PatternIndex(patterns, index)
        assert (_made_of(index), index._base) == (number + 1, first)
    patterns[100] = ("agent 100", "other100", 0.5)
    assert _made_of(PatternIndex(patterns, index)) == 300
    assert [hit.label for hit in index.match("word3 other3 word200")] == ["agent 3", "agent 200"]
