"""The store of API keys and of usage counters."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from turnwise.facts.callers import ApiKey


class Keys(Protocol):
    """The API keys of apps, without their secrets. Raises StoreError."""

    async def add(self, app: str, key: ApiKey) -> None:
        """Stores a new key. Storing the same key again changes nothing."""
        ...

    async def find(self, app: str, id: str) -> ApiKey | None:
        """Returns the key with that id, expired or not; None when there is none."""
        ...

    async def list(self, app: str) -> Sequence[ApiKey]:
        """Returns all keys of an app, including expired ones, oldest first."""
        ...

    async def expire(self, app: str, id: str, at: datetime) -> bool:
        """Makes the key invalid from that time on, never later than before. Returns whether the key exists."""
        ...

    async def forget(self, app: str, id: str) -> None:
        """Deletes the key. Idempotent."""
        ...


class Tally(NamedTuple):
    """The count of the current window."""

    total: int
    seconds: float
    """The seconds until the next window."""


class Counters(Protocol):
    """Counters that all processes on a database share, by its clock. Raises StoreError."""

    async def add(self, name: str, amount: int, window: float) -> Tally:
        """Adds to the counter atomically. It restarts every `window` seconds."""
        ...

    async def take(self, name: str, holder: str, most: int, seconds: float) -> bool:
        """Takes one of `most` slots under that name for at most that many seconds. Returns whether one was free.

        A holder that takes its slot again renews it.
        """
        ...

    async def give(self, name: str, holder: str) -> None:
        """Releases the slot. Idempotent."""
        ...


@runtime_checkable
class KeyStore(Protocol):
    """A session store that also stores keys and counters."""

    @property
    def keys(self) -> Keys: ...

    @property
    def counters(self) -> Counters: ...
