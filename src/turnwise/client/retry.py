"""Retries: which errors are temporary, and how long they are retried."""

import asyncio
import random
from typing import Protocol

from turnwise.facts.errors import Closing, StoreUnavailable, TooMany, TurnwiseError

FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0
FIRST_CONTACT_SECONDS = 2.0
"""How many seconds an address is retried that has never responded: it may be wrong."""


class Unreached(StoreUnavailable):
    """The gateway could not be reached, or the connection broke.

    Args:
        problem: The error.
        fix: How to solve it.
        sent: Whether the gateway may have received the request.
        quiet: True if the connection was open and no byte came.
        retry_after: Seconds to wait, as an intermediary requests; None if it does not.
    """

    def __init__(
        self, problem: str, *, fix: str = "", sent: bool = True, quiet: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(problem, fix=fix)
        self.sent, self.quiet, self.retry_after = sent, quiet, retry_after


TEMPORARY = (StoreUnavailable, Closing, TooMany)
"""Temporary errors."""


def was_refused(error: TurnwiseError) -> bool:
    """Returns whether the request certainly had no effect, so that any request is safe to retry."""
    return isinstance(error, TooMany) or (isinstance(error, Unreached) and not error.sent)


class Contact(Protocol):
    """Tells whether the gateway has ever responded."""

    heard: bool


class RetryBudget:
    """The retry budget of one operation: this many seconds from the first failure of a series."""

    def __init__(self, seconds: float, contact: Contact) -> None:
        self._seconds, self._contact = seconds, contact
        self._failures, self._since, self._last = 0, 0.0, 0.0

    def restart(self) -> None:
        """Ends the series of failures, because the gateway responded."""
        self._failures = 0

    async def wait_for_retry(self, error: TurnwiseError) -> bool:
        """Waits until the next attempt and returns True; returns False at once if the budget does not suffice."""
        now = asyncio.get_running_loop().time()
        if now - self._last > LONGEST_WAIT and not getattr(error, "quiet", False):
            self.restart()  # the connection worked in between
        if not self._failures:
            self._since = now
        wait = self._wait(error)
        self._failures += 1
        if now + wait - self._since >= self._limit(error):
            return False
        await asyncio.sleep(wait * random.uniform(1.0, 1.2))  # jitter
        self._last = asyncio.get_running_loop().time()
        return True

    def _wait(self, error: TurnwiseError) -> float:
        asked: float | None = getattr(error, "retry_after", None)
        return max(asked or 0.0, min(FIRST_WAIT * 2.0**self._failures, LONGEST_WAIT))

    def _limit(self, error: TurnwiseError) -> float:
        stranger = isinstance(error, Unreached) and not error.sent and not self._contact.heard
        return min(self._seconds, FIRST_CONTACT_SECONDS) if stranger else self._seconds
