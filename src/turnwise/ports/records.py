"""Records for auditors: legal holds, which prevent the deletion of a user's data, and the audit log."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from pydantic import JsonValue

from turnwise.facts.errors import ConfigError
from turnwise.facts.fact import Fact
from turnwise.ports.decisions import Labels, Page


class Act(NamedTuple):
    """An act to record."""

    actor: str
    """The actor: the id of a credential, or a name such as `cli` and `retention`."""
    action: str
    """The act, such as `label.put`, `user.erased` and `hold.added`."""
    user: str | None = None
    """The user concerned; None for an act on the app."""
    session: str | None = None
    """The session concerned."""
    details: Mapping[str, JsonValue] = {}


class AuditEntry(Fact):
    """A recorded act."""

    id: int
    """Increases with time."""
    at: datetime
    actor: str
    action: str
    user: str | None
    """None for an act on the app, and after the user's erasure."""
    session: str | None
    details: dict[str, JsonValue]


class Audit(Protocol):
    """The audit log of an app. Raises StoreError.

    The store records its own acts in their transactions: changes of labels and definitions, deletions, holds,
    retention. The erasure of a user
    clears that user's names and all details in the entries, and the entries stay.
    """

    async def record(self, app: str, act: Act) -> None:
        """Appends an entry."""
        ...

    async def list(
        self, app: str, *, user: str | None = None, action: str | None = None, after: str | None = None, limit: int = 50
    ) -> Page[AuditEntry]:
        """Returns entries, newest first. Raises CursorInvalid.

        Args:
            after: The cursor of a page.
        """
        ...


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
