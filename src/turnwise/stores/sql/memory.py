"""The memory of users on SQLite or PostgreSQL. Implements `MemoryStore`: searches by words and meaning, entities, and pages."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, or_, select

from turnwise.facts.errors import StoreError
from turnwise.facts.memory import MemoryEntry, Recalled
from turnwise.facts.sessions import SessionKey
from turnwise.matching.recall import RecallQuery, rank
from turnwise.ports.decisions import Page
from turnwise.ports.memory import (
    ALL_MEMORIES,
    EVERYTHING,
    FOUND,
    QUERY_CHARACTERS,
    MemoryFilter,
    MemoryReader,
    QueryVector,
    UnencodedText,
)
from turnwise.stores.sql import memory_index, memory_writes
from turnwise.stores.sql.ids import check_limit, cursor, read_cursor
from turnwise.stores.sql.inbox import lock_session
from turnwise.stores.sql.log import read_spans, session_missing
from turnwise.stores.sql.memory_blocks import read_postings
from turnwise.stores.sql.memory_index import IndexCache
from turnwise.stores.sql.memory_rows import COLUMNS, MemoryRow, MemoryUser, View, find_user, memories, superseded_ids
from turnwise.stores.sql.prepared import PreparedLookup
from turnwise.stores.sql.records import check_no_hold
from turnwise.stores.sql.rows import time_text
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
        wanted = Search(app, user, query, vector, reader, filter, min(limit, FOUND))
        found = await self._read(app, user, lambda connection, known: search(connection, known, wanted, self._indexes))
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
        wanted = EntityQuery(types, normals, reader, limit)
        found = await self._read(app, user, lambda connection, known: entities(connection, known, wanted))
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
        wanted = PageQuery(reader, filter, superseded, after, limit)
        check_page(wanted)
        found = await self._read(app, user, lambda connection, known: entry_page(connection, known, wanted))
        return found or Page((), None)

    async def get(self, app: str, user: str, id: str, *, reader: MemoryReader = EVERYTHING) -> MemoryEntry | None:
        return await self._read(app, user, lambda connection, known: get_entry(connection, known, id, reader))

    async def forget(self, app: str, user: str, *, ids: Collection[str] | None = None, session: str | None = None) -> int:
        """Deletes entries by id, those of a session, or all of the user. Returns their number. Raises UserOnHold."""
        known = await self._executor.read(lambda connection: find_user(connection, app, user))
        if known is None:
            return 0
        if ids is not None:
            return await self._executor.write(
                _unless_held(app, user, lambda at: memory_writes.forget_ids(at, known.owner, ids))
            )
        if session is not None:
            some = partial(memory_writes.forget_session, owner=known.owner, session_id=session)
            return await self._repeat(_unless_held(app, user, some))
        count = await self._repeat(_unless_held(app, user, partial(memory_writes.forget_some, owner=known.owner)))
        self._indexes.drop(known.owner)
        return count

    async def unencoded(self, app: str, user: str, encoder: str, *, limit: int = 64) -> Sequence[UnencodedText]:
        """Returns texts that have no vector of this encoder yet."""
        check_limit(limit)

        def read(connection: Connection) -> Sequence[UnencodedText]:
            known = find_user(connection, app, user)
            return memory_index.unencoded(connection, known.owner, encoder, limit) if known is not None else ()

        return await self._executor.read(read)

    async def put_vectors(
        self, app: str, user: str, encoder: str, numbers: Sequence[int], vectors: "NDArray[np.float32]"
    ) -> None:
        owner = owner_of(app, user)
        await self._executor.write(lambda connection: memory_index.put_vectors(connection, owner, encoder, numbers, vectors))

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
        job = partial(memory_writes.delete_expired, owner=user.owner, now=user.now)
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
    return by_ids(connection, owner_of(app, user), [each.entry.id for each in new])


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


_CURSOR = "memories"
_FIRST_CHUNK = 64
_LONGEST_CHUNK = 512
"""How many candidates one query reads. More are read until enough of them are seen by the reader."""

_m = memories.c

_BY_NUMBERS = PreparedLookup(select(*COLUMNS).where(_m.owner == bindparam("at_owner")), _m.number)


@dataclass(frozen=True, slots=True)
class Search:
    """A search in one user's memory."""

    app: str
    user: str
    query: str
    vector: QueryVector | None
    reader: MemoryReader
    filter: MemoryFilter
    limit: int


def view_of(connection: Connection, reader: MemoryReader, now: float) -> View:
    """Returns the view of a reader. A session that does not exist yet shows the entries of the whole user."""
    found = read_spans(connection, reader.session) if reader.session is not None else None
    return View(reader, found, now)


def search(connection: Connection, user: MemoryUser, wanted: Search, cache: IndexCache) -> list[Recalled]:
    """Returns the best entries, best first."""
    vector = wanted.vector
    query = RecallQuery.read(wanted.query[:QUERY_CHARACTERS], vector.vector if vector else None, now=_time(user.now))
    view = view_of(connection, wanted.reader, user.now)
    with cache.use(connection, user, vector.encoder if vector else None) as index:
        ranked = rank(
            query,
            index.entries(),
            read_postings(connection, user.owner, query.terms),
            words=user.words,
            allowed=index.allowed(view, wanted.filter, _session_number(connection, wanted)),
            limit=wanted.limit,
        )
    found = map(MemoryRow, _BY_NUMBERS.rows(connection, {"at_owner": user.owner}, [each.number for each in ranked]))
    rows = {row.number: row for row in found}
    return [
        Recalled(entry=rows[each.number].entry(), score=each.score, reason=each.reason)
        for each in ranked
        if each.number in rows
    ]


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _session_number(connection: Connection, wanted: Search) -> int | None:
    """Returns the number of the session in the filter; None without one, or when it does not exist."""
    session = wanted.filter.session
    if session is None:
        return None
    found = read_spans(connection, SessionKey(wanted.app, wanted.user, session))
    return found[0] if found is not None else None


def conditions(filter_: MemoryFilter) -> list[ColumnElement[bool]]:
    """Returns the conditions of a filter."""
    found: list[ColumnElement[bool]] = []
    for column, wanted in ((_m.kind, filter_.kinds), (_m.span, filter_.spans), (_m.said_by, filter_.said_by)):
        if wanted is not None:
            found.append(column.in_(list(wanted)))
    if filter_.session is not None:
        found.append(_m.session_id == filter_.session)
    if filter_.since is not None:
        found.append(_m.created_at >= time_text(filter_.since))
    if filter_.before is not None:
        found.append(_m.created_at < time_text(filter_.before))
    return found


def _read_rows(connection: Connection, statement: Select[Any]) -> list[MemoryRow]:
    return [MemoryRow(row) for row in connection.execute(statement)]


class EntityQuery(NamedTuple):
    """Which entities are wanted; None means any."""

    types: Collection[str] | None
    normals: Collection[str] | None
    reader: MemoryReader
    limit: int


def entities(connection: Connection, user: MemoryUser, wanted: EntityQuery) -> list[MemoryEntry]:
    """Returns entities, newest first, each type and normal form once."""
    check_limit(wanted.limit)
    is_wanted = [_m.owner == user.owner, _m.normal.is_not(None)]
    if wanted.normals is not None:
        is_wanted.append(_m.normal.in_(list(wanted.normals)))
    if wanted.types is not None:
        is_wanted.append(_m.type.in_(list(wanted.types)))
    view = view_of(connection, wanted.reader, user.now)
    found: dict[tuple[str, str], MemoryEntry] = {}
    for row in _backwards(connection, and_(*is_wanted), user, view, None):
        found.setdefault((row.values["type"], row.values["normal"]), row.entry())
        if len(found) >= wanted.limit:
            break
    return list(found.values())


class PageQuery(NamedTuple):
    """A page of entries."""

    reader: MemoryReader
    filter: MemoryFilter
    superseded: bool
    after: str | None
    limit: int


def check_page(wanted: PageQuery) -> int | None:
    """Returns the number before which the page begins, if any. Raises CursorInvalid, and ValueError for the limit."""
    check_limit(wanted.limit)
    before: int | None = read_cursor(_CURSOR, wanted.after, int)[0] if wanted.after is not None else None
    return before


def entry_page(connection: Connection, user: MemoryUser, wanted: PageQuery) -> Page[MemoryEntry]:
    """Returns a page of entries, newest first. Raises CursorInvalid."""
    before = check_page(wanted)
    view = view_of(connection, wanted.reader, user.now)
    is_wanted = and_(_m.owner == user.owner, *conditions(wanted.filter))
    found: list[MemoryRow] = []
    for row in _backwards(connection, is_wanted, user, view, before, superseded=wanted.superseded):
        found.append(row)
        if len(found) > wanted.limit:
            break
    items = tuple(row.entry() for row in found[: wanted.limit])
    more = len(found) > wanted.limit
    return Page(items, cursor(_CURSOR, found[wanted.limit - 1].number) if more else None)


def _backwards(
    connection: Connection,
    is_wanted: ColumnElement[bool],
    user: MemoryUser,
    view: View,
    before: int | None,
    *,
    superseded: bool = False,
) -> Iterator[MemoryRow]:
    """Yields the entries that the reader sees, newest first."""
    size = _FIRST_CHUNK
    while True:
        statement = select(*COLUMNS).where(is_wanted, or_(_m.expires.is_(None), _m.expires > user.now))
        if before is not None:
            statement = statement.where(_m.number < before)
        rows = _read_rows(connection, statement.order_by(_m.number.desc()).limit(size))
        seen = [row for row in rows if view.has(row)]
        replaced = frozenset() if superseded else superseded_ids(connection, user.owner, view, [row.id for row in seen])
        yield from (row for row in seen if row.id not in replaced)
        if len(rows) < size:
            return
        before, size = rows[-1].number, min(2 * size, _LONGEST_CHUNK)


_BY_IDS = select(*COLUMNS).where(_m.owner == bindparam("at_owner"), _m.entry_id.in_(bindparam("ids", expanding=True)))


def by_ids(connection: Connection, owner: int, ids: Sequence[str]) -> dict[str, MemoryEntry]:
    """Returns the entries of these ids, whoever sees them."""
    rows = [MemoryRow(row) for row in connection.execute(_BY_IDS, {"at_owner": owner, "ids": list(ids)})]
    return {row.id: row.entry() for row in rows}


def get_entry(connection: Connection, user: MemoryUser, id_: str, reader: MemoryReader) -> MemoryEntry | None:
    """Returns an entry that the reader sees, superseded or not."""
    row = connection.execute(_BY_IDS, {"at_owner": user.owner, "ids": [id_]}).first() if "\0" not in id_ else None
    if row is None:
        return None
    found = MemoryRow(row)
    return found.entry() if view_of(connection, reader, user.now).has(found) else None
