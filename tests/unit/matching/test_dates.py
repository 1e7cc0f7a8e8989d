"""The days that a text names."""

from datetime import date

import pytest

from turnwise.matching.recall import Days, named_days

TODAY = date(2024, 3, 10)


def days(first: str, last: str | None = None) -> list[Days]:
    return [Days(date.fromisoformat(first), date.fromisoformat(last or first))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What did she paint on 13 October, 2023?", days("2023-10-13")),
        ("the 13th of October 2023", days("2023-10-13")),
        ("On October 13, 2023 we met", days("2023-10-13")),
        ("since 2023-10-13", days("2023-10-13")),
        ("in July 2023", days("2023-07-01", "2023-07-31")),
        ("December 2023", days("2023-12-01", "2023-12-31")),
        ("during 2022", days("2022-01-01", "2022-12-31")),
        ("yesterday", days("2024-03-09")),
        ("two days ago", days("2024-03-08")),
        ("what I said last week", days("2024-02-26", "2024-03-03")),
        ("a month ago", days("2024-01-25", "2024-02-24")),
        ("30 February 2023", days("2023-02-01", "2023-02-28")),
        ("2023-19-45", []),
        ("I may march on", []),
        ("may 10:30 suit you?", []),
        ("order 2023 of 40 pieces", []),
    ],
)
def test_days(text: str, expected: list[Days]) -> None:
    assert named_days(text, today=TODAY) == expected


def test_a_date_without_a_year_is_of_each_of_the_years() -> None:
    found = named_days("what happened in May?", years=range(2022, 2024))
    assert found == days("2022-05-01", "2022-05-31") + days("2023-05-01", "2023-05-31")
    assert named_days("on 3 May", years=range(0)) == []
    assert len(named_days("on 3 May", years=range(1, 9_999))) == 50


def test_nothing_is_counted_from_an_unknown_day() -> None:
    assert named_days("yesterday, or two weeks ago") == []


def test_a_long_text_is_read_to_its_bound() -> None:
    assert named_days("x " * 200_000 + "2023-10-13") == []
