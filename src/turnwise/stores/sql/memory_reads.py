"""Reads memory: searches by words and meaning, entities, and pages of entries."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, or_, select

from turnwise.facts.memory import MemoryEntry, Recalled
from turnwise.facts.sessions import SessionKey
from turnwise.matching.recall import RecallQuery, rank
from turnwise.ports.decisions import Page
from turnwise.ports.memory import QUERY_CHARACTERS, MemoryFilter, MemoryReader, QueryVector
from turnwise.stores.sql.cursors import check_limit, cursor, read_cursor
from turnwise.stores.sql.log import read_spans
from turnwise.stores.sql.memory_index import IndexCache
from turnwise.stores.sql.memory_rows import COLUMNS, MemoryRow, MemoryUser, View, superseded_ids
from turnwise.stores.sql.memory_tables import memories
from turnwise.stores.sql.memory_words import read_postings
from turnwise.stores.sql.prepared import PreparedLookup
from turnwise.stores.sql.rows import time_text

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


def _read(connection: Connection, statement: Select[Any]) -> list[MemoryRow]:
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


def page(connection: Connection, user: MemoryUser, wanted: PageQuery) -> Page[MemoryEntry]:
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
        rows = _read(connection, statement.order_by(_m.number.desc()).limit(size))
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


def get(connection: Connection, user: MemoryUser, id_: str, reader: MemoryReader) -> MemoryEntry | None:
    """Returns an entry that the reader sees, superseded or not."""
    row = connection.execute(_BY_IDS, {"at_owner": user.owner, "ids": [id_]}).first() if "\0" not in id_ else None
    if row is None:
        return None
    found = MemoryRow(row)
    return found.entry() if view_of(connection, reader, user.now).has(found) else None
