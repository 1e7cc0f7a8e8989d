"""The protocol of a memory: what is known of a user beyond one session. `turnwise.testing` has its conformance suite."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from turnwise.facts.memory import MemoryEntry, MemoryKind, Recalled, Span, Speaker
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import Page

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

QUERY_CHARACTERS = 4_000
"""A search reads this many characters of its query."""
FOUND = 100
"""The most entries that one search returns."""


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """Which entries are wanted. None means any."""

    kinds: Collection[MemoryKind] | None = None
    spans: Collection[Span] | None = None
    said_by: Collection[Speaker] | None = None
    session: str | None = None
    """Only entries that belong to this session, or came from it."""
    since: datetime | None = None
    before: datetime | None = None


ALL_MEMORIES = MemoryFilter()


@dataclass(frozen=True, slots=True)
class MemoryReader:
    """The reader: it sees what one session shows, and what its caller's roles permit."""

    session: SessionKey | None = None
    """Entries of this session, and of the log that it inherited as a fork, can be read. None reads those of all sessions."""
    roles: frozenset[str] | None = None
    """The caller's roles; None reads everything."""


EVERYTHING = MemoryReader()


class QueryVector(NamedTuple):
    """A query as a vector."""

    encoder: str
    """The fingerprint of the encoder."""
    vector: "NDArray[np.float32]"


class UnencodedText(NamedTuple):
    """An entry that has no vector of an encoder."""

    number: int
    """The store's own number of the entry."""
    text: str


class MemoryStore(Protocol):
    """Stores the memory of users. Raises StoreError.

    `SessionStore.append`, `begin` and `take` store the entries of events (`actions.remembered`) in the same transaction. An
    entry can be seen as long as its event can: a rewind hides it, and a fork sees what it inherited. An entry of the whole
    user is seen in all sessions, unless the session that it came from was rewound.

    An entry that expired is never returned again, even if the clock is set back. An entry is superseded while an entry that
    names it can be seen. No method returns entries of another user.
    """

    async def remember(self, app: str, user: str, entries: Sequence[MemoryEntry]) -> Sequence[MemoryEntry]:
        """Stores entries and returns them as stored. An id that is stored already changes nothing.

        An entry with a `source` can be seen as long as that event can; an entry of a hidden event is skipped.

        Raises:
            SessionMissing: The session of an entry does not exist.
            StorageUsed: The user would have more than 100,000 entries. Nothing is stored.
        """
        ...

    async def search(
        self,
        app: str,
        user: str,
        query: str,
        *,
        vector: QueryVector | None = None,
        reader: MemoryReader = EVERYTHING,
        filter: MemoryFilter = ALL_MEMORIES,
        limit: int = 10,
    ) -> Sequence[Recalled]:
        """Returns the entries that fit the query best, by words and, with a vector, by meaning; best first.

        Entries without a vector of that encoder are found by words only.
        """
        ...

    async def entities(
        self,
        app: str,
        user: str,
        *,
        types: Collection[str] | None = None,
        normals: Collection[str] | None = None,
        reader: MemoryReader = EVERYTHING,
        limit: int = 20,
    ) -> Sequence[MemoryEntry]:
        """Returns entities, newest first, each type and normal form once. With `normals` it costs one read of an index."""
        ...

    async def recent(
        self,
        app: str,
        user: str,
        *,
        reader: MemoryReader = EVERYTHING,
        filter: MemoryFilter = ALL_MEMORIES,
        superseded: bool = False,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[MemoryEntry]:
        """Returns a page of entries, newest first. Raises CursorInvalid.

        Args:
            superseded: Also entries that others replace.
            after: The cursor of a page.
        """
        ...

    async def get(self, app: str, user: str, id: str, *, reader: MemoryReader = EVERYTHING) -> MemoryEntry | None:
        """Returns the entry; None when the user has none of that id that can be seen."""
        ...

    async def forget(self, app: str, user: str, *, ids: Collection[str] | None = None, session: str | None = None) -> int:
        """Deletes entries with the entries that they replace, and returns how many. Their text is overwritten in recorded
        steps, too.

        Args:
            ids: The entries. Unknown ids are skipped.
            session: The entries that belong to this session or came from it; ignored with `ids`. Without both, all of the user.

        Raises:
            UserOnHold: The user has a legal hold.
        """
        ...

    async def unencoded(self, app: str, user: str, encoder: str, *, limit: int = 64) -> Sequence[UnencodedText]:
        """Returns the next entries that have no vector of that encoder, oldest first."""
        ...

    async def put_vectors(
        self, app: str, user: str, encoder: str, numbers: Sequence[int], vectors: "NDArray[np.float32]"
    ) -> None:
        """Stores the vectors of entries, one row each. Entries that were forgotten meanwhile are skipped."""
        ...
