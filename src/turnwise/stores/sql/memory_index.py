"""The fields of a user's entries that a search compares, as arrays: kept in memory within a bound, and read on only where it
grew.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, and_, bindparam, select

from turnwise.matching.recall import NO_SESSION, CodedVectors, Entries
from turnwise.ports.memory import MemoryFilter
from turnwise.stores.sql.memory_blocks import KIND_CODES, NO_SCOPE, ROW, SPAN_CODES, SPEAKER_CODES, Rows, read_rows
from turnwise.stores.sql.memory_rows import MemoryUser, View
from turnwise.stores.sql.memory_tables import memories, memory_links
from turnwise.stores.sql.memory_vectors import read_after
from turnwise.stores.sql.prepared import PreparedStatement

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
            for block in read_after(connection, user.owner, encoder, self._encoded):
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
