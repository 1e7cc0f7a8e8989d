"""The ids of new rows."""

from datetime import datetime
from secrets import randbits
from threading import Lock
from time import time_ns

_NUMBER_BITS = 48
_ID_BITS = 11


def new_session_number() -> int:
    """Returns a random number for a new session. It is short, because every index holds it."""
    return randbits(_NUMBER_BITS)


def decision_id(at: datetime, number: int) -> int:
    """Returns the id of a decision that was made at that time; `number` distinguishes decisions of one microsecond."""
    return (int(at.timestamp() * 1_000_000) << _ID_BITS) + number % (1 << _ID_BITS)


class _Clock:
    """Gives ids that increase with the time and are different in every process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last = 0

    def next(self) -> int:
        with self._lock:
            now = (time_ns() // 1000 << _ID_BITS) + randbits(_ID_BITS)
            self._last = max(self._last + 1, now)
            return self._last


new_id = _Clock().next
"""Returns an id that increases with the time: microseconds, followed by random bits."""
