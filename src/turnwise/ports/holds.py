"""Legal holds, which prevent the deletion of a user's data, and the stores that keep them with labels and the audit log."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from turnwise.facts.errors import ConfigError
from turnwise.facts.fact import Fact
from turnwise.ports.audit import Audit
from turnwise.ports.labels import Labels


class Hold(Fact):
    """A legal hold on a user's data."""

    id: str
    user: str
    author: str
    """Who added the hold."""
    at: datetime
    reason: str
    """For operators; users do not see it."""


class Holds(Protocol):
    """The legal holds of an app. While a user has one, deletions and retention spare the user's data. Raises StoreError."""

    async def add(self, app: str, hold: Hold) -> None:
        """Stores a hold. Storing the same id again changes nothing."""
        ...

    async def remove(self, app: str, id: str, *, actor: str) -> bool:
        """Removes a hold. Returns whether it existed."""
        ...

    async def list(self, app: str, *, user: str | None = None) -> Sequence[Hold]:
        """Returns all holds of an app, or of one user, oldest first."""
        ...


@runtime_checkable
class RecordStore(Protocol):
    """A session store that also keeps labels, legal holds and an audit log."""

    @property
    def labels(self) -> Labels: ...

    @property
    def holds(self) -> Holds: ...

    @property
    def audit(self) -> Audit: ...


def record_store_of(store: object) -> RecordStore:
    """Returns the store as one that also keeps labels, legal holds and the audit log.

    Raises:
        ConfigError: The store does not support them.
    """
    if isinstance(store, RecordStore):
        return store
    raise ConfigError(
        f"A {type(store).__name__} keeps no legal holds and no audit log.",
        fix="Use a SQL session store: store: sqlite:///file.db",
    )
