"""Deletes what the rules of retention no longer keep, in short steps."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from turnwise.facts.retention import Retention
from turnwise.facts.sessions import SessionKey


class Pruned(NamedTuple):
    """The result of one step."""

    counts: Mapping[str, int]
    """The number of deleted items by kind: sessions, decisions, invocations, inbox, pushes."""
    sessions: Sequence[SessionKey]
    """The deleted sessions; the caller deletes their artifacts."""
    revisions: Collection[int]
    """The revisions of definitions that these users' decisions name. Empty unless versions of definitions are to be pruned."""
    next: str | None
    """The user after which the next step continues; None at the end."""


@runtime_checkable
class PrunableStore(Protocol):
    """A session store that can delete old data. Raises StoreError."""

    async def prune(
        self, app: str, retention: Retention, *, now: datetime, after: str | None = None, dry_run: bool = False
    ) -> Pruned:
        """Deletes what the rules no longer keep of the next users. Sessions in use and users on hold are spared.

        Each transaction changes at most 500 rows. A step that a crash interrupts is repeated by the next pass.

        Args:
            after: Where to continue; None begins a new pass.
            dry_run: Only count.
        """
        ...
