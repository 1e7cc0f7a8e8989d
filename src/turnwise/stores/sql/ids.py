"""The ids of new rows, and page cursors: opaque to callers, validated when they return."""

import base64
import json
from datetime import UTC, datetime, timedelta
from secrets import randbits
from threading import Lock
from time import time_ns
from typing import Any

from turnwise.facts.errors import CursorInvalid

_NUMBER_BITS = 48
_ID_BITS = 11
_MOMENTS = 100
_LAST_MOMENT = (1 << 63 - _ID_BITS) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def new_session_number() -> int:
    """Returns a random number for a new session. It is short, because every index holds it."""
    return randbits(_NUMBER_BITS)


def first_decision_id(at: datetime) -> int:
    """Returns the lowest id of the decisions made at that time or later. A time without a zone counts as UTC.

    Times after the year 2112 or before 1827 count as the last or first of these: their ids would not fit into a column.
    """
    aware = at if at.tzinfo else at.replace(tzinfo=UTC)
    moment = (aware - _EPOCH) // _MICROSECOND
    return max(-_LAST_MOMENT, min(moment, _LAST_MOMENT)) << _ID_BITS


def decision_time(id_: int) -> datetime:
    """Returns the time of the decision with that id."""
    return _EPOCH + (id_ >> _ID_BITS) * _MICROSECOND


def decision_id(at: datetime, number: int) -> int:
    """Returns the id of a decision that was made at that time; `number` distinguishes decisions of one microsecond."""
    return first_decision_id(at) + number % (1 << _ID_BITS)


class _Ids:
    """Gives ids that increase with the time and are different in every process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last = 0
        self._of_moments: dict[int, int] = {}
        """The last id of each of the latest moments, so that threads may take turns."""

    def next(self) -> int:
        """Returns an id of this moment; it is higher than all before it."""
        with self._lock:
            now = (time_ns() // 1000 << _ID_BITS) + randbits(_ID_BITS)
            self._last = max(self._last + 1, now)
            return self._last

    def at(self, moment: datetime) -> int:
        """Returns an id of that moment; it is higher than the one before it if that was of the same moment."""
        with self._lock:
            first = first_decision_id(moment)
            last = self._of_moments.pop(first, None)
            self._of_moments[first] = found = first + randbits(_ID_BITS) if last is None else last + 1
            if len(self._of_moments) > _MOMENTS:
                del self._of_moments[next(iter(self._of_moments))]
            return found


new_id = _Ids().next
"""Returns an id that increases with the time: microseconds, followed by random bits."""
new_decision_id = _Ids().at
"""Returns the id of a decision, by its time."""


def cursor(kind: str, *values: str | int) -> str:
    """Returns the cursor after a row with these sort values."""
    text = json.dumps([kind, *values], ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(kind: str, text: str, *types: type) -> tuple[Any, ...]:
    """Returns the values of a cursor. CursorInvalid for any other text, or a cursor of another list."""
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        data = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        data = None
    if isinstance(data, list) and data[:1] == [kind]:
        values = tuple(data[1:])
        if tuple(type(value) for value in values) == types and all(_is_storable(value) for value in values):
            return values
    raise CursorInvalid(
        f"{text[:80]!r} is not a cursor of this list.", fix="Pass a page's `next` as it is, or None to begin at the front."
    )


def _is_storable(value: str | int) -> bool:
    """Returns whether every database accepts the value."""
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)
    return -(2**63) <= value < 2**63


def check_limit(limit: int) -> None:
    if limit < 1:
        raise ValueError(f"A page holds at least one row; limit is {limit}.")
