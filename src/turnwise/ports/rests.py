"""Rests of agents whose surroundings fail, such as a service that is away, and the store of rests that processes share.

A rest is a circuit breaker as a pure value (behaviour C20).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from pydantic import Field

from turnwise.facts.fact import Fact

WINDOW = timedelta(seconds=60)
"""Older failures do not count."""
LONGEST = timedelta(minutes=10)
PROBE = timedelta(seconds=60)
"""After this time a probe does not count any more: its process died."""
_KEPT_FAILURES = 20


class Outage(Fact):
    """One failure of an agent's surroundings."""

    user: str
    """A digest of the user."""
    at: datetime


class Rest(Fact):
    """The failures of an agent, and until when it rests. A row that processes share and change by compare-and-set."""

    agent: str
    version: int = Field(default=0, ge=0)
    """Counts the changes; 0 = not stored."""
    outages: tuple[Outage, ...] = ()
    until: datetime | None = None
    """The end of the rest; None = the agent does not rest. After it, one message is a probe."""
    count: int = 0
    """How many rests followed each other. Each is twice as long as the one before."""
    probed_at: datetime | None = None
    """When the probe began; None = there is none."""

    def excludes(self, now: datetime) -> bool:
        """Returns whether no message may go to the agent now: it rests, or a probe is being answered."""
        return self.until is not None and (now < self.until or self._is_probed(now))

    def is_due(self, now: datetime) -> bool:
        """Returns whether the next message for the agent is a probe."""
        return self.until is not None and not self.excludes(now)

    def after_outage(self, user: str, now: datetime, *, seconds: float, users: int) -> "Rest":
        """Returns the state after another failure.

        Args:
            user: A digest of the user with the failed message.
            now: The time.
            seconds: The length of the first rest.
            users: The number of users with failed messages after which the agent rests.
        """
        if self.until is not None and now < self.until:
            return self  # an answer that began before the rest
        recent = (*(each for each in self.outages if now - each.at <= WINDOW), Outage(user=user, at=now))[-_KEPT_FAILURES:]
        if self.until is None and len({each.user for each in recent}) < users:
            return self.replace(outages=recent)
        length = min(timedelta(seconds=seconds) * 2 ** min(self.count, 16), LONGEST)
        return self.replace(outages=(), until=now + length, count=self.count + 1, probed_at=None)

    def after_success(self) -> "Rest":
        """Returns the state after an answer: nothing failed."""
        return Rest(agent=self.agent, version=self.version)

    def probed(self, now: datetime) -> "Rest":
        """Returns the state while a probe is being answered."""
        return self.replace(probed_at=now)

    @property
    def is_clear(self) -> bool:
        return self.until is None and not self.outages

    def _is_probed(self, now: datetime) -> bool:
        return self.probed_at is not None and now - self.probed_at < PROBE


class Rests(Protocol):
    """The rests of apps' agents. Raises StoreError."""

    async def all(self, app: str) -> Sequence[Rest]:
        """Returns the rests of an app's agents, by name."""
        ...

    async def replace(self, app: str, rest: Rest) -> Rest | None:
        """Stores a rest if the stored one has its version, and returns it with the next version; else None."""
        ...


@runtime_checkable
class RestStore(Protocol):
    """A session store that also stores rests."""

    @property
    def rests(self) -> Rests: ...
