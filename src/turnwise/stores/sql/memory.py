"""The memory of users on SQLite or PostgreSQL. Implements `MemoryStore`."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection

from turnwise.facts.errors import StoreError
from turnwise.facts.memory import MemoryEntry, Recalled
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import Page
from turnwise.ports.memory import (
    ALL_MEMORIES,
    EVERYTHING,
    FOUND,
    MemoryFilter,
    MemoryReader,
    QueryVector,
    UnencodedText,
)
from turnwise.stores.sql import memory_forgetting, memory_reads, memory_vectors, memory_writes
from turnwise.stores.sql.cursors import check_limit
from turnwise.stores.sql.holds import check_no_hold
from turnwise.stores.sql.inbox import lock_session
from turnwise.stores.sql.log import read_spans, session_missing
from turnwise.stores.sql.memory_index import IndexCache
from turnwise.stores.sql.memory_rows import MemoryUser, find_user
from turnwise.stores.sql.spans import Spans, log_at
from turnwise.stores.sql.tables import owner_of
from turnwise.stores.sql.worker_pool import Executor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

log = logging.getLogger("turnwise.stores")


class SqlMemory:
    """The store's memory."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._indexes = IndexCache()

    async def remember(self, app: str, user: str, entries: Sequence[MemoryEntry]) -> Sequence[MemoryEntry]:
        if not entries:
            return ()
        stored = await self._executor.write(lambda connection: _remember(connection, app, user, entries))
        return [stored[entry.id] for entry in entries if entry.id in stored]

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
        """Returns the entries nearest to the query by words, vector and time."""
        check_limit(limit)
        wanted = memory_reads.Search(app, user, query, vector, reader, filter, min(limit, FOUND))
        found = await self._read(
            app, user, lambda connection, known: memory_reads.search(connection, known, wanted, self._indexes)
        )
        return found or ()

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
        """Returns the user's entities by type or normal form, newest first."""
        wanted = memory_reads.EntityQuery(types, normals, reader, limit)
        found = await self._read(app, user, lambda connection, known: memory_reads.entities(connection, known, wanted))
        return found or ()

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
        """Returns a page of the user's entries, newest first."""
        wanted = memory_reads.PageQuery(reader, filter, superseded, after, limit)
        memory_reads.check_page(wanted)
        found = await self._read(app, user, lambda connection, known: memory_reads.page(connection, known, wanted))
        return found or Page((), None)

    async def get(self, app: str, user: str, id: str, *, reader: MemoryReader = EVERYTHING) -> MemoryEntry | None:
        return await self._read(app, user, lambda connection, known: memory_reads.get(connection, known, id, reader))

    async def forget(self, app: str, user: str, *, ids: Collection[str] | None = None, session: str | None = None) -> int:
        """Deletes entries by id, those of a session, or all of the user. Returns their number. Raises UserOnHold."""
        known = await self._executor.read(lambda connection: find_user(connection, app, user))
        if known is None:
            return 0
        if ids is not None:
            return await self._executor.write(
                _unless_held(app, user, lambda at: memory_forgetting.forget_ids(at, known.owner, ids))
            )
        if session is not None:
            some = partial(memory_forgetting.forget_session, owner=known.owner, session_id=session)
            return await self._repeat(_unless_held(app, user, some))
        count = await self._repeat(_unless_held(app, user, partial(memory_forgetting.forget_some, owner=known.owner)))
        self._indexes.drop(known.owner)
        return count

    async def unencoded(self, app: str, user: str, encoder: str, *, limit: int = 64) -> Sequence[UnencodedText]:
        """Returns texts that have no vector of this encoder yet."""
        check_limit(limit)

        def read(connection: Connection) -> Sequence[UnencodedText]:
            known = find_user(connection, app, user)
            return memory_vectors.unencoded(connection, known.owner, encoder, limit) if known is not None else ()

        return await self._executor.read(read)

    async def put_vectors(
        self, app: str, user: str, encoder: str, numbers: Sequence[int], vectors: "NDArray[np.float32]"
    ) -> None:
        owner = owner_of(app, user)
        await self._executor.write(lambda connection: memory_vectors.put(connection, owner, encoder, numbers, vectors))

    async def _read(self, app: str, user: str, work: Callable[[Connection, MemoryUser], T]) -> T | None:
        """Returns the result of a read; None for a user without a memory. Entries that it finds expired are deleted first."""

        def read(connection: Connection) -> tuple[T | None, MemoryUser | None]:
            known = find_user(connection, app, user)
            if known is None:
                return None, None
            return work(connection, known), known if known.has_expired else None

        result, expiring = await self._executor.read(read)
        if expiring is not None:
            await self._delete_expired(expiring)
        return result

    async def _delete_expired(self, user: MemoryUser) -> None:
        """Deletes expired entries, so that none returns when the clock is set back."""
        job = partial(memory_forgetting.delete_expired, owner=user.owner, now=user.now)
        try:
            await self._repeat(job)
        except StoreError as problem:
            log.warning("Expired entries of a memory could not be deleted: %s", problem.code)

    async def _repeat(self, step: Callable[[Connection], int]) -> int:
        """Runs the step until it returns 0, and returns the sum."""
        total = 0
        while count := await self._executor.write(step):
            total += count
        return total


def _unless_held(app: str, user: str, work: Callable[[Connection], int]) -> Callable[[Connection], int]:
    """Returns the work; it raises UserOnHold when the user has a legal hold."""

    def run(connection: Connection) -> int:
        check_no_hold(connection, app, user)
        return work(connection)

    return run


def _remember(connection: Connection, app: str, user: str, entries: Sequence[MemoryEntry]) -> dict[str, MemoryEntry]:
    """Stores entries with their places in the log, and returns them as stored, by id."""
    sources = [entry.source.session for entry in entries if entry.source is not None]
    named = {id_ for id_ in (*(entry.session for entry in entries), *sources) if id_ is not None}
    # Locked, so that no rewind comes between; in one order everywhere, so that two transactions never deadlock.
    spans = {id_: _spans(connection, SessionKey(app, user, id_)) for id_ in sorted(named)}
    new = [placed for entry in entries if (placed := _placed(entry, spans)) is not None]
    memory_writes.remember(connection, app, user, new)
    return memory_reads.by_ids(connection, owner_of(app, user), [each.entry.id for each in new])


def _placed(entry: MemoryEntry, spans: Mapping[str, tuple[int, Spans]]) -> memory_writes.NewEntry | None:
    """Returns the entry with its place in the log; None if its source is no longer there to be seen."""
    scope = spans[entry.session][0] if entry.session is not None else None
    if entry.source is None:
        return memory_writes.NewEntry(entry, entry.session or "", scope)
    log_ = log_at(spans[entry.source.session][1], entry.source.sequence)
    if log_ is None:
        return None
    return memory_writes.NewEntry(entry, entry.source.session, scope, log_, entry.source.sequence)


def _spans(connection: Connection, key: SessionKey) -> tuple[int, Spans]:
    lock_session(connection, key)
    found = read_spans(connection, key)
    if found is None:
        raise session_missing(key)
    return found
