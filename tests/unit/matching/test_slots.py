"""Values that a pattern finds in a message."""

import pytest

from turnwise.facts.errors import PatternError
from turnwise.matching.patterns import VALUE_CHARACTERS, SlotPattern


@pytest.mark.parametrize(
    ("regex", "text", "value"),
    [
        (r"#(\d+)", "Order #42 and #43", "42"),
        (r"\d+", "Order 42", "42"),
        (r"(?:i am|my name is) (\w+)", "MY NAME IS Ada.", "Ada"),
        (r"(a)?b", "b", None),
        (r"x( *)y", "x   y", None),
        ("x", "nothing", None),
        ("(é)", "e\u0301", "é"),
        ("(a+)", "a" * 5000, "a" * VALUE_CHARACTERS),
        ("z", "a" * 10_000 + "z", None),
    ],
)
def test_the_first_group_is_the_value(regex: str, text: str, value: str | None) -> None:
    assert SlotPattern("s", regex).find(text) == value


@pytest.mark.parametrize("regex", ["", "(?=x)", r"(a)\1", "[", "x" * 10_001])
def test_what_re2_refuses(regex: str) -> None:
    with pytest.raises(PatternError, match="'s'"):
        SlotPattern("s", regex)
