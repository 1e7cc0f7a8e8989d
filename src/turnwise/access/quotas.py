"""Quotas of callers, for each credential and each user, and the limiters by name that they use.

Requests and bytes a minute; answers and requests at once.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Any, Literal

from turnwise.facts.callers import Caller
from turnwise.facts.errors import ConfigError, StoreError, TooMany
from turnwise.facts.gateway import CallerLimits
from turnwise.ports.key_store import Counters

MINUTE = 60.0
MAX_NAMES = 100_000
"""Most names that are counted at once. Beyond that the oldest is forgotten and starts anew."""
FETCH_FRACTION = 50
"""A process fetches shared units in batches of one such fraction of the limit."""


@dataclass(slots=True)
class _Window:
    """The units that this process may still spend in the current window of a name."""

    left: int = 0
    """Units left."""
    end: float = float("-inf")
    """End of the window by the local clock."""
    spent_out: bool = False
    """True when the shared counter has no more units in this window."""
    filling: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while units are fetched."""


class RateLimiter:
    """Allows each name `most` units per window. A window begins with its first unit. For one event loop.

    With `counters` all processes share the limit. Each process fetches units in batches, because a commit for each request
    would
    cost more than the request. Together they never exceed `most`, but one process may refuse while another still holds unspent
    units: at most a fiftieth of the limit each, or the units of one refused large request. Memory is bounded by `names`.

    Args:
        most: Units per window.
        window: Length of the window in seconds.
        counters: The shared counters; None = this process counts alone.
        names: Most names to remember.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        most: int,
        *,
        window: float = MINUTE,
        counters: Counters | None = None,
        names: int = MAX_NAMES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._window, self._counters = most, window, counters
        self._names, self._clock = names, clock
        # Ordered by the start of the window.
        self._windows: dict[str, _Window] = {}

    def __len__(self) -> int:
        """Returns how many names are remembered."""
        return len(self._windows)

    async def spend(self, name: str, amount: int = 1) -> float | None:
        """Spends units.

        Returns:
            None when they were spent. Otherwise nothing was spent, and the result is the seconds until the next window.

        Raises:
            StoreError: The shared counters cannot be reached.
        """
        if amount > self._most:
            return self._window
        while True:
            window, now = self._window_of(name), self._clock()
            if window.end > now and window.left >= amount:
                window.left -= amount
                return None
            if window.end > now and window.spent_out:
                return window.end - now
            async with window.filling:
                if window.end <= self._clock() or (window.left < amount and not window.spent_out):
                    await self._fill(window, name, amount)

    async def charge(self, name: str, amount: int) -> None:
        """Spends units that were used already: all that are left, if there are fewer. Raises StoreError."""
        if await self.spend(name, min(amount, self._most)) is not None:
            self._window_of(name).left = 0

    def known_wait(self, name: str, amount: int = 1) -> float | None:
        """Returns the seconds until the next window if `amount` is known to be unavailable, else None. Spends nothing."""
        if amount > self._most:
            return self._window
        window, now = self._windows.get(name), self._clock()
        if window is None or window.left >= amount or not window.spent_out or window.end <= now:
            return None
        return window.end - now

    def _window_of(self, name: str) -> _Window:
        window = self._windows.get(name)
        if window is None:
            self._make_room()
            window = self._windows[name] = _Window()
        return window

    def _make_room(self) -> None:
        """Drops up to two expired windows, and the oldest ones when there are too many."""
        now = self._clock()
        for name, window in list(islice(self._windows.items(), 2)):
            if (window.end <= now and not window.filling.locked()) or len(self._windows) >= self._names:
                del self._windows[name]

    async def _fill(self, window: _Window, name: str, amount: int) -> None:
        """Takes more units from the shared counter for this process, or begins a new window without one."""
        # Read before the database's clock, so that the local end is never later than the real one.
        now = self._clock()
        if self._counters is None:
            self._begin(window, name, now + self._window)
            window.left, window.spent_out = self._most, True
            return
        left = window.left if window.end > now else 0
        wanted = min(max(amount - left, self._most // FETCH_FRACTION, 1), self._most)
        tally = await self._counters.add(name, wanted, self._window)
        end = now + tally.seconds
        if end - window.end > self._window / 2:
            self._begin(window, name, end)
        window.end = max(window.end, end)
        granted = min(max(self._most - (tally.total - wanted), 0), wanted)
        window.left += granted
        window.spent_out = granted < wanted

    def _begin(self, window: _Window, name: str, end: float) -> None:
        """Begins a new window and drops the units of the old one."""
        window.left, window.end, window.spent_out = 0, end, False
        if self._windows.pop(name, None) is not None:
            self._windows[name] = window


SLOT_SECONDS = 60.0
"""How long the slot of a dead process stays taken."""


class ConcurrencyLimiter:
    """Gives each name up to `most` slots at once. For one event loop.

    Args:
        most: Slots of one name.
        counters: Shared counters; all processes that use them share the slots. None = the slots of this process.
        seconds: How long a shared slot lasts. It is renewed while it is in use.
    """

    def __init__(self, most: int, *, counters: Counters | None = None, seconds: float = SLOT_SECONDS) -> None:
        self._most, self._counters, self._seconds = most, counters, seconds
        self._used: dict[str, int] = {}
        self._releases: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def place(self, name: str) -> AsyncIterator[bool]:
        """Takes a slot for the duration of the context and releases it however the context ends.

        Yields:
            True when a slot was free, else False.

        Raises:
            StoreError: The shared counters cannot be reached. Raised on entry only.
        """
        entered = self._local_slot(name) if self._counters is None else self._shared_slot(self._counters, name)
        async with entered as is_free:
            yield is_free

    @asynccontextmanager
    async def _local_slot(self, name: str) -> AsyncIterator[bool]:
        """Takes a slot of this process for the block; yields False if none is free."""
        taken = self._used.get(name, 0)
        if taken >= self._most:
            yield False
            return
        self._used[name] = taken + 1
        try:
            yield True
        finally:
            self._used[name] -= 1
            if not self._used[name]:
                del self._used[name]

    @asynccontextmanager
    async def _shared_slot(self, counters: Counters, name: str) -> AsyncIterator[bool]:
        """Takes a slot that all processes share for the block, and renews it; yields False if none is free."""
        holder = secrets.token_hex(8)
        taking = asyncio.create_task(counters.take(name, holder, self._most, self._seconds))
        renewing: asyncio.Task[None] | None = None
        done = asyncio.Event()
        try:
            # A cancelled caller may still get its slot: `_release` waits for it and gives it back.
            is_free = await asyncio.shield(taking)
            if is_free:
                renewing = asyncio.create_task(self._renew(counters, name, holder, done))
            yield is_free
        finally:
            done.set()
            await asyncio.shield(self._start_release(_release(counters, name, holder, taking, renewing)))

    async def _renew(self, counters: Counters, name: str, holder: str, done: asyncio.Event) -> None:
        """Renews the slot until `done` is set. It must not be cancelled: the store completes a started call anyway."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), self._seconds / 3)
                return
            with suppress(StoreError):  # the next renewal may succeed
                await counters.take(name, holder, self._most, self._seconds)

    def _start_release(self, release: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(release)
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)
        return task


async def _release(
    counters: Counters, name: str, holder: str, taking: asyncio.Task[bool], renewing: asyncio.Task[None] | None
) -> None:
    """Releases the slot after all pending calls that could take it again. Without the store it expires by itself."""
    await asyncio.wait({task for task in (taking, renewing) if task is not None})
    if taking.cancelled() or taking.exception() is not None or taking.result():
        with suppress(StoreError):
            await counters.give(name, holder)


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
