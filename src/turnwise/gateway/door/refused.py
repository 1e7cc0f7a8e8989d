"""Requests that were not taken: when one comes again, nothing was begun for it."""

from collections import Counter
from collections.abc import Hashable

MOST = 10_000


class Refused:
    """Counts refusals by what was asked. The oldest are forgotten."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._times: Counter[Hashable] = Counter()

    def add(self, asked: Hashable) -> None:
        """It was refused once more."""
        self._times[asked] += 1
        if len(self._times) > self._most:
            del self._times[next(iter(self._times))]

    def take(self, asked: Hashable) -> bool:
        """Whether it was refused and has not come again since; now it has."""
        if not self._times[asked]:
            del self._times[asked]
            return False
        self._times[asked] -= 1
        return True
