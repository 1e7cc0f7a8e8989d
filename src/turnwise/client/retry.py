"""How long what may pass is tried again."""

import asyncio
import random
from typing import Protocol

from turnwise.facts.errors import Closing, StoreUnavailable, TooMany, TurnwiseError

FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0
STRANGER_SECONDS = 2.0
"""How long an address is tried at which nobody was ever heard: it may be wrong."""


class Unreached(StoreUnavailable):
    """The gateway could not be reached, or the connection broke off.

    sent: whether it may have got the request. quiet: whether the connection stood, and nothing came. retry_after: seconds
    that somebody on the way asks to wait; None = nobody does.
    """

    def __init__(
        self, problem: str, *, fix: str = "", sent: bool = True, quiet: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(problem, fix=fix)
        self.sent, self.quiet, self.retry_after = sent, quiet, retry_after


PASSING = (StoreUnavailable, Closing, TooMany)
"""What may be different after a while."""


def was_refused(error: TurnwiseError) -> bool:
    """Whether it is certain that nothing was done, so that trying again is safe, whatever was asked for."""
    return isinstance(error, TooMany) or (isinstance(error, Unreached) and not error.sent)


class Known(Protocol):
    """Whether the gateway was ever heard."""

    heard: bool


class Patience:
    """For one undertaking: so many seconds from the first failure of a row."""

    def __init__(self, seconds: float, known: Known) -> None:
        self._seconds, self._known = seconds, known
        self._failures, self._since, self._last = 0, 0.0, 0.0

    def restart(self) -> None:
        """Something came: the next failure is the first of its row."""
        self._failures = 0

    async def lasts(self, error: TurnwiseError) -> bool:
        """Waits until it is time to try again; False at once when there is no time left for that."""
        now = asyncio.get_running_loop().time()
        if now - self._last > LONGEST_WAIT and not getattr(error, "quiet", False):
            self.restart()  # the connection stood since
        if not self._failures:
            self._since = now
        wait = self._wait(error)
        self._failures += 1
        if now + wait - self._since >= self._limit(error):
            return False
        await asyncio.sleep(wait * random.uniform(1.0, 1.2))  # not in step with others
        self._last = asyncio.get_running_loop().time()
        return True

    def _wait(self, error: TurnwiseError) -> float:
        asked: float | None = getattr(error, "retry_after", None)
        return max(asked or 0.0, min(FIRST_WAIT * 2.0**self._failures, LONGEST_WAIT))

    def _limit(self, error: TurnwiseError) -> float:
        stranger = isinstance(error, Unreached) and not error.sent and not self._known.heard
        return min(self._seconds, STRANGER_SECONDS) if stranger else self._seconds
