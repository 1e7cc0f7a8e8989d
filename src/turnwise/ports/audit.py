"""The audit log: the actor, the act, and the user concerned."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from pydantic import JsonValue

from turnwise.facts.fact import Fact
from turnwise.ports.decisions import Page


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
