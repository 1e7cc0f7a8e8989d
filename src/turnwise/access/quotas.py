"""How much each credential, and each user, may have: requests and bytes in a minute, answers at once."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from typing import Literal

from turnwise.access.concurrency import ConcurrencyLimiter
from turnwise.access.rate_limit import RateLimiter
from turnwise.facts.callers import Caller
from turnwise.facts.errors import ConfigError, TooMany
from turnwise.facts.gateway import CallerLimits
from turnwise.ports.key_store import Counters

RETRY_SECONDS = 1.0
"""When an answer ends nobody knows; until then it is worth asking this often."""
_Owner = Literal["user", "credential"]


class Quotas:
    """The limits of an app's callers. Each counts twice, for its user and for its credential, and may be too much for either.

    A minute is one that begins with the first request in it. With `limits.shared` all processes on these counters count
    together; otherwise each for itself. StoreError when they cannot be reached. For one event loop.
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

    async def request(self, caller: Caller, user: str | None) -> None:
        """Counts a request; user: for whom it is, None = for nobody. TooMany, StoreError."""
        await self._spend(self._requests, "requests", 1, caller, user)

    async def received(self, caller: Caller, user: str | None, bytes: int) -> None:
        """Counts what a request brought, or is about to bring. TooMany, StoreError."""
        await self._spend(self._bytes, "bytes", bytes, caller, user)

    @asynccontextmanager
    async def runs(self, caller: Caller, user: str | None) -> AsyncIterator[None]:
        """A place for one running answer, as long as the context is entered, however it is left. TooMany, StoreError."""
        async with AsyncExitStack() as places:
            for owner, name in self._names("runs", caller, user):
                if not await places.enter_async_context(self._runs.place(name)):
                    raise _too_many(owner, f"{self._limits.runs:,} answers at once", RETRY_SECONDS)
            yield

    async def _spend(self, allowances: RateLimiter, kind: str, amount: int, caller: Caller, user: str | None) -> None:
        """Spends that for the user and for the credential. When it is known that one of them has no more, neither spends."""
        names, what = list(self._names(kind, caller, user)), f"{getattr(self._limits, kind):,} {kind} in a minute"
        for owner, name in names:
            if (wait := allowances.known_wait(name, amount)) is not None:
                raise _too_many(owner, what, wait)
        for owner, name in names:
            if (wait := await allowances.spend(name, amount)) is not None:
                raise _too_many(owner, what, wait)

    def _names(self, kind: str, caller: Caller, user: str | None) -> Iterator[tuple[_Owner, str]]:
        """Under which names that counts, the user first."""
        if user is not None:
            yield "user", self._name(kind, "user", user)
        yield "credential", self._name(kind, "credential", caller.id)

    def _name(self, kind: str, owner: _Owner, id: str) -> str:
        """Of one length, of plain characters, and telling nothing of whom it is about."""
        text = "\0".join((self._app, kind, owner, id))
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _too_many(owner: _Owner, what: str, wait: float) -> TooMany:
    return TooMany(f"This {owner} may have {what}.", fix="Ask again later, as Retry-After says.", retry_after=wait)
