"""The vectors and other fields of a user's entries as arrays, for searches. Memory keeps them within a bound, and reads on only
where they grew.

Vectors are stored in one row for each batch, and merged into blocks. A row's body has the numbers of its entries (8 bytes
each), a scale for each vector (4 bytes), then the vectors as signed bytes.
"""

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, and_, bindparam, case, delete, func, insert, select

from turnwise.matching.recall import NO_SESSION, CodedVectors, Entries
from turnwise.ports.memory import MemoryFilter, UnencodedText
from turnwise.stores.sql.memory_blocks import KIND_CODES, NO_SCOPE, ROW, SPAN_CODES, SPEAKER_CODES, Rows, read_rows
from turnwise.stores.sql.memory_rows import MemoryUser, View, memories, memory_links, memory_users, memory_vectors
from turnwise.stores.sql.prepared import PreparedLookup, PreparedStatement
from turnwise.stores.sql.tables import column_params

CACHE_BYTES = 128 * 1024 * 1024
"""The most memory that the indexes of users take in one process."""

_m, _l = memories.c, memory_links.c

_PAIRS = PreparedStatement(
    select(_m.number, _l.newer)
    .join(memories, and_(_m.owner == _l.owner, _m.entry_id == _l.older))
    .where(_l.owner == bindparam("at_owner"), _l.newer >= bindparam("first"), _l.newer < bindparam("end"))
)
_COLUMNS: tuple[str, ...] = ROW.names or ()
_LEAST_ROWS = 16

Mask = NDArray[np.bool_]


class UserIndex:
    """The entries of one user at one version, in the order of their numbers. It only grows; a change makes a new one."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.next = 0
        """The first number that it does not have."""
        self._count = 0
        self._columns = {name: np.zeros(_LEAST_ROWS, ROW[name]) for name in _COLUMNS}
        self._vectors: CodedVectors | None = None
        self._encoded = 0
        self._roles: dict[int, frozenset[str]] = {}
        self._pairs: list[tuple[int, int]] = []

    @property
    def bytes(self) -> int:
        return sum(column.nbytes for column in (*self._columns.values(), *(self._vectors or ())))

    @property
    def _rows(self) -> dict[str, NDArray[Any]]:
        return {name: column[: self._count] for name, column in self._columns.items()}

    @property
    def _coded(self) -> CodedVectors | None:
        """The vectors of the rows."""
        vectors, count = self._vectors, self._count
        return None if vectors is None else CodedVectors(vectors.codes[:count], vectors.scales[:count])

    def entries(self) -> Entries:
        """Returns what ranking reads."""
        rows = self._rows
        # Without an event, the entries of one session are neighbours, too.
        scopes = np.where(rows["scope"] == NO_SCOPE, NO_SESSION, rows["scope"])
        sessions = np.where(rows["log"] == 0, scopes, rows["log"])
        return Entries(rows["number"], sessions, rows["time"], self._coded)

    def grow(self, connection: Connection, user: MemoryUser, encoder: str | None, older: "UserIndex | None" = None) -> None:
        """Reads what was added since, and the vectors that were made since.

        Args:
            older: An earlier index of the same encoder. Its vectors are taken: the vector of a number never changes.
        """
        at = {"at_owner": user.owner, "first": self.next, "end": user.next}
        if user.next > self.next:
            self._add(list(read_rows(connection, user.owner, self.next, user.next)))
            self._pairs += [(row[0], row[1]) for row in _PAIRS.rows(connection, at)]
            self.next = user.next
        if older is not None and older._coded is not None and older._count and self._count:
            self._add_vectors(older._rows["number"], older._coded)
            self._encoded = older._encoded
        if encoder is not None and self._count and self._encoded < self._rows["number"][-1]:
            for block in read_vectors(connection, user.owner, encoder, self._encoded):
                self._add_vectors(block.numbers, block.coded)

    def allowed(self, view: View, filter_: MemoryFilter, session: int | None) -> Mask:
        """Returns which entries the reader sees, that no other one replaces, and that pass the filter.

        Args:
            session: The number of the session in the filter.
        """
        seen = self._seen(view)
        if self._pairs:
            older, newer = (np.array(numbers, np.int64) for numbers in zip(*self._pairs, strict=True))
            replaced = self._places(older)[seen[self._places(newer)]]
            allowed = seen.copy()
            allowed[replaced] = False
        else:
            allowed = seen
        return allowed & self._passing(filter_, session)

    def _seen(self, view: View) -> Mask:
        """Returns the mask of the entries that the reader sees: not hidden, not expired, in scope, and open to its roles."""
        rows = self._rows
        if view.is_everywhere:
            seen = ~rows["hidden"]
        else:
            shown = np.zeros(self._count, bool)
            for span in view.spans:
                shown |= (rows["log"] == span.log) & (rows["sequence"] >= span.first) & (rows["sequence"] <= span.last)
            of_user = rows["scope"] == NO_SCOPE
            seen = shown | (of_user & ~rows["hidden"])
            if view.number is not None:
                seen |= (rows["scope"] == view.number) & (rows["log"] == 0)
        seen &= rows["expires"] > view.now
        if view.roles is not None:
            refused = [number for number, roles in self._roles.items() if view.roles.isdisjoint(roles)]
            if refused:
                seen[self._places(np.array(refused, np.int64))] = False
        return np.asarray(seen, np.bool_)

    def _passing(self, filter_: MemoryFilter, session: int | None) -> Mask:
        """Returns the mask of the entries that the filter lets pass."""
        rows = self._rows
        passing = np.ones(self._count, bool)
        for name, wanted, codes in (
            ("kind", filter_.kinds, KIND_CODES),
            ("span", filter_.spans, SPAN_CODES),
            ("said_by", filter_.said_by, SPEAKER_CODES),
        ):
            if wanted is not None:
                passing &= np.isin(rows[name], [codes[each] for each in wanted if each in codes])
        if filter_.session is not None:
            passing &= (rows["log"] == session) | (rows["scope"] == session) if session is not None else False
        if filter_.since is not None:
            passing &= rows["time"] >= filter_.since.timestamp()
        if filter_.before is not None:
            passing &= rows["time"] < filter_.before.timestamp()
        return passing

    def _places(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(np.searchsorted(self._rows["number"], numbers), np.int64)

    def _add(self, parts: Sequence[Rows]) -> None:
        """Appends rows to the columns, which grow by doubling."""
        count, room = self._count + sum(len(part.values) for part in parts), len(self._columns["number"])
        if count > room:
            rows = max(count, 2 * room)
            self._columns = {name: _widened(column, rows) for name, column in self._columns.items()}
            if self._vectors is not None:
                self._vectors = CodedVectors(_widened(self._vectors.codes, rows), _widened(self._vectors.scales, rows))
        for part in parts:
            end = self._count + len(part.values)
            for name, column in self._columns.items():
                column[self._count : end] = part.values[name]
            self._roles |= part.roles
            self._count = end

    def _add_vectors(self, numbers: NDArray[np.int64], vectors: CodedVectors) -> None:
        """Puts vectors beside their entries. Vectors of entries that are not read yet are left out."""
        if self._vectors is None:
            room = len(self._columns["number"])
            self._vectors = CodedVectors(np.zeros((room, vectors.codes.shape[1]), np.int8), np.zeros(room, np.float32))
        places = self._places(numbers)
        is_here = (places < self._count) & (self._rows["number"][np.minimum(places, self._count - 1)] == numbers)
        if is_here.all() and places[-1] - places[0] == len(places) - 1:
            self._vectors.codes[places[0] : places[-1] + 1] = vectors.codes
            self._vectors.scales[places[0] : places[-1] + 1] = vectors.scales
        else:
            self._vectors.codes[places[is_here]] = vectors.codes[is_here]
            self._vectors.scales[places[is_here]] = vectors.scales[is_here]
        # Vectors of entries that were added after this was read are read again with them.
        self._encoded = int(numbers[places < self._count].max(initial=self._encoded))


def _widened(array: NDArray[Any], rows: int) -> NDArray[Any]:
    wide = np.zeros((rows, *array.shape[1:]), array.dtype)
    wide[: len(array)] = array
    return wide


class IndexCache:
    """The indexes of the users whose memory was searched last. Safe to share between threads.

    A search takes an index out while it uses it, since the index grows. A search beside it makes one of its own.
    """

    def __init__(self, most: int = CACHE_BYTES) -> None:
        self._most, self._bytes = most, 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, str | None], tuple[UserIndex, int]] = OrderedDict()

    @contextmanager
    def use(self, connection: Connection, user: MemoryUser, encoder: str | None) -> Iterator[UserIndex]:
        """Gives the index of a user for the block; reads only what is new."""
        key = (user.owner, encoder)
        index = self._take(key)
        if index is not None and index.next > user.next:
            index = None
        older = index
        if index is None or index.version != user.version:
            index = UserIndex(user.version)
        index.grow(connection, user, encoder, older if older is not index else None)
        yield index
        with self._lock:
            self._drop(key)
            self._kept[key] = (index, index.bytes)
            self._bytes += index.bytes
            while self._bytes > self._most and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1][1]

    def drop(self, owner: int) -> None:
        """Removes what it has of a user."""
        with self._lock:
            for key in [key for key in self._kept if key[0] == owner]:
                self._drop(key)

    def _take(self, key: tuple[int, str | None]) -> UserIndex | None:
        with self._lock:
            return self._drop(key)

    def _drop(self, key: tuple[int, str | None]) -> UserIndex | None:
        index, size = self._kept.pop(key, (None, 0))
        self._bytes -= size
        return index


BLOCK_VECTORS = 256
SMALL_ROWS = 32
"""The number of rows with few vectors at which they are merged into one."""

_u, _v = memory_users.c, memory_vectors.c

_OF_ENCODER = (_v.owner == bindparam("at_owner")) & (_v.encoder == bindparam("at_encoder"))
_READ = PreparedStatement(select(_v.body).where(_OF_ENCODER, _v.last > bindparam("after")).order_by(_v.first))
_LAST = select(func.coalesce(func.max(_v.last), 0)).where(_OF_ENCODER)
_IS_SMALL = and_(_OF_ENCODER, _v.count < BLOCK_VECTORS)
_IS_OTHER = _v.encoder != bindparam("at_encoder")
# In one statement, as each turn that remembers is followed by it.
_STORED = PreparedStatement(
    select(
        func.coalesce(func.max(case((_OF_ENCODER, _v.last))), 0),
        func.count(case((_IS_SMALL, 1))),
        func.coalesce(func.sum(case((_IS_SMALL, _v.count))), 0),
        func.count(case((_IS_OTHER, 1))),
    ).where(_v.owner == bindparam("at_owner"))
)
_SMALL_BODIES = PreparedStatement(select(_v.first, _v.body).where(_IS_SMALL).order_by(_v.first))
_INSERT = PreparedStatement(insert(memory_vectors).values(column_params(memory_vectors)).inline())
_DELETE = PreparedStatement(delete(memory_vectors).where(_OF_ENCODER, _v.first == bindparam("at_first")))
_DELETE_OTHERS = PreparedStatement(delete(memory_vectors).where(_v.owner == bindparam("at_owner"), _IS_OTHER))
_HOLDING = select(_v.encoder, _v.first, _v.body).where(
    _v.owner == bindparam("at_owner"), _v.first <= bindparam("highest"), _v.last >= bindparam("lowest")
)
_UNENCODED = PreparedStatement(
    select(_m.number, _m.text)
    .where(_m.owner == bindparam("at_owner"), _m.number > _LAST.scalar_subquery(), _m.kind != "entity")
    .order_by(_m.number)
    .limit(bindparam("at_most"))
)
_EXISTING = PreparedLookup(select(_m.number).where(_m.owner == bindparam("at_owner")), _m.number)
_LOCK = PreparedStatement(select(_u.version).where(_u.owner == bindparam("at_owner")).with_for_update())


class Vectors(NamedTuple):
    """The vectors of a user's entries under one encoder, in the order of the entries' numbers."""

    numbers: NDArray[np.int64]
    coded: CodedVectors


def unencoded(connection: Connection, owner: int, encoder: str, limit: int) -> Sequence[UnencodedText]:
    """Returns the next entries without a vector. Entities have none: their words are enough."""
    rows = _UNENCODED.rows(connection, {"at_owner": owner, "at_encoder": encoder, "at_most": limit})
    return [UnencodedText(*row) for row in rows]


def read_vectors(connection: Connection, owner: int, encoder: str, after: int) -> Iterator[Vectors]:
    """Yields the vectors of entries with higher numbers, in blocks in the order of the numbers."""
    for row in _READ.stream(connection, {"at_owner": owner, "at_encoder": encoder, "after": after}):
        yield _later_vectors(_unpacked_vectors(row[0]), after)


def put_vectors(connection: Connection, owner: int, encoder: str, numbers: Sequence[int], vectors: NDArray[np.float32]) -> None:
    """Stores vectors, except of entries that are gone, and of those that another process encoded meanwhile."""
    if connection.dialect.name != "sqlite":  # where there is one writer at a time
        _LOCK.row(connection, {"at_owner": owner})
    at = {"at_owner": owner, "at_encoder": encoder}
    last, small_rows, in_small, others = _STORED.row(connection, at) or (0, 0, 0, 0)
    existing = {row[0] for row in _EXISTING.rows(connection, {"at_owner": owner}, numbers)}
    kept = [place for place, number in enumerate(numbers) if number > last and number in existing]
    if not kept:
        return
    stored = Vectors(np.array([numbers[place] for place in kept], np.int64), CodedVectors.of(vectors[kept]))
    if small_rows and (small_rows >= SMALL_ROWS or in_small + len(kept) >= BLOCK_VECTORS):
        small = _SMALL_BODIES.rows(connection, at)
        stored = _joined_vectors([*(_unpacked_vectors(body) for _, body in small), stored])
        _DELETE.run_many(connection, [at | {"at_first": first} for first, _ in small])
    _INSERT.run_many(connection, [_vectors_row(owner, encoder, part) for part in _parts_of(stored)])
    if others and not unencoded(connection, owner, encoder, 1):
        # All entries have a vector of this encoder: those of an earlier one are of no more use.
        _DELETE_OTHERS.run_many(connection, [at])


def remove_vectors(connection: Connection, owner: int, numbers: Collection[int]) -> None:
    """Removes the vectors of entries."""
    span = {"at_owner": owner, "lowest": min(numbers), "highest": max(numbers)}
    for encoder, first, body in connection.execute(_HOLDING, span).all():
        held = _unpacked_vectors(body)
        stays = ~np.isin(held.numbers, np.fromiter(numbers, np.int64))
        if stays.all():
            continue
        _DELETE.run_many(connection, [{"at_owner": owner, "at_encoder": encoder, "at_first": first}])
        if stays.any():
            _INSERT.run_many(connection, [_vectors_row(owner, encoder, _chosen_vectors(held, stays))])


def _parts_of(vectors: Vectors) -> Sequence[Vectors]:
    starts = range(0, len(vectors.numbers), BLOCK_VECTORS)
    return [_chosen_vectors(vectors, slice(at, at + BLOCK_VECTORS)) for at in starts]


def _vectors_row(owner: int, encoder: str, vectors: Vectors) -> dict[str, Any]:
    first, last = int(vectors.numbers[0]), int(vectors.numbers[-1])
    at = {"owner": owner, "encoder": encoder, "first": first, "last": last}
    return at | {"count": len(vectors.numbers), "body": _packed_vectors(vectors)}


def _packed_vectors(vectors: Vectors) -> bytes:
    """Returns vectors as bytes."""
    count, coded = np.array([len(vectors.numbers)], "<i8"), vectors.coded
    parts = (count, vectors.numbers.astype("<i8"), coded.scales.astype("<f4"), coded.codes)
    return b"".join(part.tobytes() for part in parts)


def _unpacked_vectors(body: bytes) -> Vectors:
    """Returns the vectors that `_packed` packed."""
    count = int(np.frombuffer(body, "<i8", 1)[0])
    numbers = np.frombuffer(body, "<i8", count, 8)
    scales = np.frombuffer(body, "<f4", count, 8 + 8 * count)
    codes = np.frombuffer(body, np.int8, offset=8 + 12 * count).reshape(count, -1)
    return Vectors(numbers, CodedVectors(codes, scales))


def _joined_vectors(parts: Sequence[Vectors]) -> Vectors:
    columns = ([each.numbers for each in parts], *zip(*(each.coded for each in parts), strict=True))
    numbers, codes, scales = map(np.concatenate, columns)
    return Vectors(numbers, CodedVectors(codes, scales))


def _chosen_vectors(vectors: Vectors, index: Any) -> Vectors:
    """Returns the vectors of a slice, or those at which a mask is true."""
    coded = vectors.coded
    return Vectors(vectors.numbers[index], coded._replace(codes=coded.codes[index], scales=coded.scales[index]))


def _later_vectors(vectors: Vectors, after: int) -> Vectors:
    new = vectors.numbers > after
    return vectors if new.all() else _chosen_vectors(vectors, new)
