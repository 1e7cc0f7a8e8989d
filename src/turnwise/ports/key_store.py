"""What is kept of those who may enter: API keys, and how much each has had."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from turnwise.facts.callers import ApiKey


class Keys(Protocol):
    """The API keys of apps, without their secrets. Raises StoreError."""

    async def add(self, app: str, key: ApiKey) -> None:
        """Keeps a new key; the same key again changes nothing."""
        ...

    async def find(self, app: str, id: str) -> ApiKey | None:
        """The key of that id, expired or not; None when there is none."""
        ...

    async def list(self, app: str) -> Sequence[ApiKey]:
        """All keys of an app, the expired ones too, oldest first."""
        ...

    async def expire(self, app: str, id: str, at: datetime) -> bool:
        """From then on it does not count; never later than it was before. Whether there is such a key."""
        ...

    async def forget(self, app: str, id: str) -> None:
        """Deletes it. Idempotent."""
        ...


class Tally(NamedTuple):
    """How much was counted in the present window, and the seconds until the next."""

    total: int
    seconds: float


class Counters(Protocol):
    """Counts that all processes on a database share, by its clock. Raises StoreError."""

    async def add(self, name: str, amount: int, window: float) -> Tally:
        """Adds to that counter, which starts anew every `window` seconds; atomically."""
        ...

    async def take(self, name: str, holder: str, most: int, seconds: float) -> bool:
        """Takes one of `most` places under that name, for so long at most, and says whether there was one. Taking again what
        the holder has prolongs it.
        """
        ...

    async def give(self, name: str, holder: str) -> None:
        """Gives the place back. Idempotent."""
        ...


@runtime_checkable
class KeyStore(Protocol):
    """A session store that keeps these, too, has them as `keys` and `counters`."""

    @property
    def keys(self) -> Keys: ...

    @property
    def counters(self) -> Counters: ...
