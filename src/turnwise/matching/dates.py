"""The days that a text names: dates, months, years, and days counted from today. English words and ISO dates."""

import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple

_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NUMBERS = {month: number for number, month in enumerate(_NAMES, 1)}
_MONTH = (
    "(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?)"
)
_YEAR = r"(?:,? (?:of )?(?P<year>(?:19|20)\d\d))?"
_ISO = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)-(?P<day>\d\d)\b")
_DAY_FIRST = re.compile(rf"\b(?P<day>\d\d?)(?:st|nd|rd|th)?(?: of)? {_MONTH}\b{_YEAR}")
_MONTH_FIRST = re.compile(rf"\b{_MONTH} (?P<day>\d\d?)(?:st|nd|rd|th)?\b(?!:){_YEAR}")
# "May" and "March" are also verbs: without a day they need a word or a year beside them.
_IN_MONTH = re.compile(rf"\b(?:in|during|since|until|of|early|mid|late|last|this) {_MONTH}\b{_YEAR}")
_MONTH_AND_YEAR = re.compile(rf"\b{_MONTH}{_YEAR[:-1]}")
_IN_YEAR = re.compile(r"\b(?:in|during|of) (?P<year>(?:19|20)\d\d)\b")
_AGO = re.compile(r"\b(?P<count>\d\d?|an?|one|two|three|four|five|six) (?P<unit>day|week|month)s? ago\b")
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_NEAR = {"today": (0, 0), "yesterday": (1, 1), "last week": (7, 13), "this week": (0, 6), "last month": (28, 61)}
_DAYS = {"day": 1, "week": 7, "month": 30}

READ_CHARACTERS = 2_000


class Days(NamedTuple):
    """A range of days, both included."""

    first: date
    last: date


def named_days(text: str, *, today: date | None = None, years: range = range(0)) -> list[Days]:
    """Returns the ranges of days that a text names, in the order of their kinds.

    Args:
        text: Any text; its first 2,000 characters are read.
        today: The day from which "yesterday" and "last week" count; None ignores such words.
        years: The years for a date that names none, at most 50.
    """
    plain = " ".join(text[:READ_CHARACTERS].lower().split())
    found = [days for pattern in (_ISO, _DAY_FIRST, _MONTH_FIRST) for days in _days_of_dates(pattern, plain, years)]
    if not found:
        found = [days for pattern in (_IN_MONTH, _MONTH_AND_YEAR) for days in _days_of_dates(pattern, plain, years)]
    if not found:
        found = [Days(date(year, 1, 1), date(year, 12, 31)) for year in map(int, _IN_YEAR.findall(plain))]
    return list(dict.fromkeys(found + (list(_days_from_today(plain, today)) if today is not None else [])))


def _days_of_dates(pattern: re.Pattern[str], text: str, years: range) -> Iterator[Days]:
    """Yields the days that a pattern's matches name, in each of the years where the text names none."""
    for match in pattern.finditer(text):
        named = match.groupdict()
        month = int(named["month"]) if named["month"].isdigit() else _NUMBERS[named["month"][:3]]
        for year in [int(named["year"])] if named["year"] else years[-50:]:
            try:
                if named.get("day"):
                    day = date(year, month, int(named["day"]))
                    yield Days(day, day)
                else:
                    following = date(year + month // 12, month % 12 + 1, 1)
                    yield Days(date(year, month, 1), following - timedelta(days=1))
            except ValueError:  # no such day
                continue


def _days_from_today(text: str, today: date) -> Iterator[Days]:
    """Yields the days that words count from today: "yesterday", "three weeks ago"."""
    for words, (first, last) in _NEAR.items():
        if re.search(rf"\b{words}\b", text):
            yield Days(today - timedelta(days=last), today - timedelta(days=first))
    for match in _AGO.finditer(text):
        count = _COUNTS.get(match["count"]) or int(match["count"])
        unit = _DAYS[match["unit"]]
        middle, around = count * unit, unit // 2
        yield Days(today - timedelta(days=middle + around), today - timedelta(days=middle - around))
