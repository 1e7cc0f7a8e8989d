"""Quotas of callers: requests and bytes a minute, answers and requests at once, for each credential and each user."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from typing import Literal

from turnwise.access.limiters import ConcurrencyLimiter, RateLimiter
from turnwise.facts.callers import Caller
from turnwise.facts.errors import ConfigError, TooMany
from turnwise.facts.gateway import CallerLimits
from turnwise.ports.key_store import Counters

RETRY_SECONDS = 1.0
"""Suggested wait when all slots for running answers are taken; their end is not known."""
_Owner = Literal["user", "credential"]


class Quotas:
    """Enforces the limits of an app's callers. Each request counts for its user and for its credential. For one event loop.

    A minute begins with the first request in it.

    Args:
        app: The app; part of each counter's name.
        limits: With `shared` all processes that use `counters` count together, else each process counts alone.
        counters: The store's counters.

    Raises:
        ConfigError: `limits.shared` is set without counters.
    """

    def __init__(self, app: str, limits: CallerLimits, counters: Counters | None = None) -> None:
        if limits.shared and counters is None:
            raise ConfigError(
                "The limits of callers are to be shared, but this session store keeps no counters.",
                fix="Leave out gateway.limits.shared, or use a SQL session store.",
            )
        shared = counters if limits.shared else None
        self._app, self._limits = app, limits
        self._requests = RateLimiter(limits.requests, counters=shared)
        self._bytes = RateLimiter(limits.bytes, counters=shared)
        self._runs = ConcurrencyLimiter(limits.runs, counters=shared)
        # Counted here only: each shared slot would cost each request two commits.
        self._open = ConcurrencyLimiter(limits.connections)

    async def request(self, caller: Caller, user: str | None) -> None:
        """Counts a request.

        Args:
            caller: The caller.
            user: The user of the request; None = it concerns no user.

        Raises:
            TooMany: The user or the credential is over its limit.
            StoreError: The shared counters cannot be reached.
        """
        self._check_known(self._bytes, "bytes", 1, caller, user)
        await self._spend(self._requests, "requests", 1, caller, user)

    async def work(self, caller: Caller, user: str | None, units: int) -> None:
        """Counts an operation as `units` more requests, at most half of the limit; raises as `request`."""
        units = min(units, self._limits.requests // 2)
        if units > 0:
            await self._spend(self._requests, "requests", units, caller, user)

    async def received(self, caller: Caller, user: str | None, bytes: int) -> None:
        """Counts the bytes of a request's body; raises as `request`. May be called before they arrive."""
        await self._spend(self._bytes, "bytes", bytes, caller, user)

    async def sent(self, caller: Caller, user: str | None, bytes: int) -> None:
        """Counts the bytes of a response. Refuses nothing; when they are used up, the next request is refused.

        Raises StoreError.
        """
        for _, name in self._names("bytes", caller, user):
            await self._bytes.charge(name, bytes)

    @asynccontextmanager
    async def connection(self, caller: Caller, user: str | None) -> AsyncIterator[None]:
        """Takes a place for one open request or stream for the duration of the context. Raises TooMany, on entry only."""
        async with AsyncExitStack() as places:
            for owner, name in self._names("connections", caller, user):
                if not await places.enter_async_context(self._open.place(name)):
                    raise _too_many(owner, f"{self._limits.connections:,} requests and streams open at once", RETRY_SECONDS)
            yield

    @asynccontextmanager
    async def runs(self, caller: Caller, user: str | None) -> AsyncIterator[None]:
        """Takes a slot for one running answer for the duration of the context. Raises as `request`, on entry only."""
        async with AsyncExitStack() as slots:
            for owner, name in self._names("runs", caller, user):
                if not await slots.enter_async_context(self._runs.place(name)):
                    raise _too_many(owner, f"{self._limits.runs:,} answers at once", RETRY_SECONDS)
            yield

    async def _spend(self, limiter: RateLimiter, kind: str, amount: int, caller: Caller, user: str | None) -> None:
        """Counts `amount` for the user and the credential. If one is known to be over its limit, nothing is counted."""
        self._check_known(limiter, kind, amount, caller, user)
        for owner, name in self._names(kind, caller, user):
            if (wait := await limiter.spend(name, amount)) is not None:
                raise _too_many(owner, self._per_minute(kind), wait)

    def _check_known(self, limiter: RateLimiter, kind: str, amount: int, caller: Caller, user: str | None) -> None:
        """Raises TooMany if the user or the credential is known to be over its limit."""
        for owner, name in self._names(kind, caller, user):
            if (wait := limiter.known_wait(name, amount)) is not None:
                raise _too_many(owner, self._per_minute(kind), wait)

    def _per_minute(self, kind: str) -> str:
        return f"{getattr(self._limits, kind):,} {kind} in a minute"

    def _names(self, kind: str, caller: Caller, user: str | None) -> Iterator[tuple[_Owner, str]]:
        """Yields the counter names of a request, the user's first."""
        if user is not None:
            yield "user", self._name(kind, "user", user)
        yield "credential", self._name(kind, "credential", caller.id)

    def _name(self, kind: str, owner: _Owner, id: str) -> str:
        """Returns a hash as counter name: fixed length, plain characters, and no personal data."""
        text = "\0".join((self._app, kind, owner, id))
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _too_many(owner: _Owner, description: str, wait: float) -> TooMany:
    return TooMany(f"This {owner} may have {description}.", fix="Ask again later, as Retry-After says.", retry_after=wait)
