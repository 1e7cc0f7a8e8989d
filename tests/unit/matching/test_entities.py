"""Things that a text names by their form."""

import time

import pytest
from nasty_texts import UNITS

from turnwise.matching.entities import MOST, find_entities


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Where is order 10412?", {("code", "10412")}),
        ("ref AB-1234, and #77", {("code", "ab-1234"), ("code", "77")}),
        ("write to Ann.B@x.co.uk please", {("email", "ann.b@x.co.uk")}),
        ("from 2026-11-24 to 3 May", {("date", "2026-11-24"), ("date", "3 may")}),
        ("I paid $12.50, not 30 EUR", {("money", "$12.50"), ("money", "30 eur")}),
        ("a 10-day trip for 2 people at 5 pm", set()),
        ("no number here", set()),
        ("", set()),
    ],
)
def test_things_are_found_by_their_form(text: str, found: set[tuple[str, str]]) -> None:
    assert {(each.type, each.normal) for each in find_entities(text)} == found


def test_named_groups_of_patterns_name_things() -> None:
    patterns = [r"order\s+(?P<order>\d+)", r"no group (\d+)", r"(?P<broken>", r"flight (?P<flight>[A-Z]{2}\d+)"]
    found = find_entities("My Order 10412 and flight LH400", patterns)
    assert [(each.type, each.value, each.normal) for each in found] == [
        ("order", "10412", "10412"),
        ("flight", "LH400", "lh400"),
    ]


def test_things_are_found_once_and_not_without_end() -> None:
    assert len(find_entities("10412 10412 #10412")) == 1
    assert len(find_entities(" ".join(str(10_000 + n) for n in range(300)))) == MOST


@pytest.mark.parametrize("unit", UNITS)
def test_any_text_can_be_read(unit: str) -> None:
    for each in find_entities(unit * 500, [r"(?P<it>\d+)"]):
        assert each.normal.strip() == each.normal


@pytest.mark.parametrize("piece", ["a1-", "1,", "@", "a.", "1.", "$", "jan ", "1/"])
def test_reading_takes_no_longer_for_a_nasty_text(piece: str) -> None:
    """J1: linear; a quadratic search of 100,000 characters would take minutes."""
    began = time.process_time()
    find_entities(piece * (100_000 // len(piece)))
    assert time.process_time() - began < 5.0
