"""Lines that are broken between words."""

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len
from rich.text import Text

from turnwise.cli.rendering import break_text, wrap

NAME = "a_name_that_somebody_generated_from_a_department"


def lines(text: str, width: int | None) -> list[str]:
    return [line.plain for line in wrap([Text(text)], width)]


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("no width, no break", None, ["no width, no break"]),
        ("it fits", 7, ["it fits"]),
        ("", 40, [""]),
        ("→ orders · it matches a pattern of orders", 30, ["→ orders · it matches a", "  pattern of orders"]),
        ("12. patterns  chosen  It matches a pattern.", 30, ["12. patterns  chosen  It", "    matches a pattern."]),
        ("    1  user: where is my order at last", 30, ["    1  user: where is my order", "       at last"]),
        ("   score of something that is long", 28, ["   score of something that", "     is long"]),
        ("one line that is long\n  another", 22, ["one line that is long", "  another"]),
        (f"→ {NAME} · it matches", 30, [f"→ {NAME}", "  · it matches"]),
        ("→ 注文と配送の問い合わせ窓口 です", 24, ["→ 注文と配送の問い合わせ", "  窓口 です"]),
        ("→ 注文と配送の問い合わせ窓口です", 26, ["→ 注文と配送の問い合わせ窓", "  口です"]),
        (f"→ 📦📦 {NAME} 📦", 30, ["→ 📦📦", f"  {NAME}", "  📦"]),
    ],
)
def test_a_line_goes_on_below_its_first_word(text: str, width: int | None, expected: list[str]) -> None:
    assert lines(text, width) == expected


def test_styles_stay_with_their_words() -> None:
    text = Text("one two ").append("three", style="bold")
    first, second = break_text(text, 8)
    assert (first.plain, second.plain) == ("one two", "three")
    assert [(span.start, span.end, span.style) for span in second.spans] == [(0, 5, "bold")]


@given(st.text(alphabet="ab c12.→\u4e2d\U0001f4e6", max_size=200), st.integers(1, 60))
def test_no_word_is_broken_and_none_is_lost(text: str, width: int) -> None:
    found = lines(text, width)
    assert "".join("".join(line.split()) for line in found) == "".join(text.split())
    narrow = [word for word in text.split() if cell_len(word) == len(word)]
    told = " ".join(found).split()
    assert all(any(word in each for each in told) for word in narrow)
    longest = max((len(word) for word in narrow), default=0)
    assert all(cell_len(line) <= max(width, longest + 60) for line in found)
