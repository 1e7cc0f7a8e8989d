"""The protocol of a store of rests, which processes share."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from turnwise.facts.rests import Rest


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
