"""How values are written for people."""

from collections.abc import Sequence
from datetime import date, time

from helpdesk import clock


def money(cents: int) -> str:
    return f"${cents / 100:,.2f}"


def on(day: date) -> str:
    """`on Sunday, November 22`; `today`, `tomorrow` and `yesterday` when it is so."""
    near = {-1: "yesterday", 0: "today", 1: "tomorrow"}.get((day - clock.today()).days)
    return near or f"on {day:%A}, {day:%B} {day.day}"


def long_date(day: date) -> str:
    """`November 22, 2026`."""
    return f"{day:%B} {day.day}, {day.year}"


def hour(at: time) -> str:
    """`9 am`, `6:30 pm`."""
    number = at.hour % 12 or 12
    minutes = f":{at.minute:02d}" if at.minute else ""
    return f"{number}{minutes} {'am' if at.hour < 12 else 'pm'}"


def listed(things: Sequence[str], last: str = "and") -> str:
    """`a, b and c`."""
    if len(things) < 2:
        return "".join(things)
    return f"{', '.join(things[:-1])} {last} {things[-1]}"


def numbered(things: Sequence[str]) -> str:
    """One per line, numbered from 1."""
    return "\n".join(f"  {number}. {thing}" for number, thing in enumerate(things, start=1))
