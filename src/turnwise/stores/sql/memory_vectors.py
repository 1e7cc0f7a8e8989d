"""Vectors of entries: stored one row for each batch, and merged into blocks.

A row's body has the numbers of its entries (8 bytes each), a scale for each vector (4 bytes), then the vectors as signed bytes.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, and_, bindparam, case, delete, func, insert, select

from turnwise.ports.memory import UnencodedText
from turnwise.stores.sql.memory_tables import memories, memory_users, memory_vectors
from turnwise.stores.sql.prepared import PreparedLookup, PreparedStatement
from turnwise.stores.sql.tables import column_params

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.matching.recall import CodedVectors

BLOCK_VECTORS = 256
SMALL_ROWS = 32
"""The number of rows with few vectors at which they are merged into one."""

_m, _u, _v = memories.c, memory_users.c, memory_vectors.c

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

    numbers: "NDArray[np.int64]"
    coded: "CodedVectors"


def unencoded(connection: Connection, owner: int, encoder: str, limit: int) -> Sequence[UnencodedText]:
    """Returns the next entries without a vector. Entities have none: their words are enough."""
    rows = _UNENCODED.rows(connection, {"at_owner": owner, "at_encoder": encoder, "at_most": limit})
    return [UnencodedText(*row) for row in rows]


def read_after(connection: Connection, owner: int, encoder: str, after: int) -> Iterator[Vectors]:
    """Yields the vectors of entries with higher numbers, in blocks in the order of the numbers."""
    for row in _READ.stream(connection, {"at_owner": owner, "at_encoder": encoder, "after": after}):
        yield _later(_unpacked(row[0]), after)


def put(connection: Connection, owner: int, encoder: str, numbers: Sequence[int], vectors: "NDArray[np.float32]") -> None:
    """Stores vectors, except of entries that are gone, and of those that another process encoded meanwhile."""
    import numpy as np

    from turnwise.matching.recall import CodedVectors

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
        stored = _joined([*(_unpacked(body) for _, body in small), stored])
        _DELETE.run_many(connection, [at | {"at_first": first} for first, _ in small])
    _INSERT.run_many(connection, [_row(owner, encoder, part) for part in _parts(stored)])
    if others and not unencoded(connection, owner, encoder, 1):
        # All entries have a vector of this encoder: those of an earlier one are of no more use.
        _DELETE_OTHERS.run_many(connection, [at])


def remove(connection: Connection, owner: int, numbers: Collection[int]) -> None:
    """Removes the vectors of entries."""
    import numpy as np

    span = {"at_owner": owner, "lowest": min(numbers), "highest": max(numbers)}
    for encoder, first, body in connection.execute(_HOLDING, span).all():
        held = _unpacked(body)
        stays = ~np.isin(held.numbers, np.fromiter(numbers, np.int64))
        if stays.all():
            continue
        _DELETE.run_many(connection, [{"at_owner": owner, "at_encoder": encoder, "at_first": first}])
        if stays.any():
            _INSERT.run_many(connection, [_row(owner, encoder, _chosen(held, stays))])


def _parts(vectors: Vectors) -> Sequence[Vectors]:
    starts = range(0, len(vectors.numbers), BLOCK_VECTORS)
    return [_chosen(vectors, slice(at, at + BLOCK_VECTORS)) for at in starts]


def _row(owner: int, encoder: str, vectors: Vectors) -> dict[str, Any]:
    first, last = int(vectors.numbers[0]), int(vectors.numbers[-1])
    at = {"owner": owner, "encoder": encoder, "first": first, "last": last}
    return at | {"count": len(vectors.numbers), "body": _packed(vectors)}


def _packed(vectors: Vectors) -> bytes:
    """Returns vectors as bytes."""
    import numpy as np

    count, coded = np.array([len(vectors.numbers)], "<i8"), vectors.coded
    parts = (count, vectors.numbers.astype("<i8"), coded.scales.astype("<f4"), coded.codes)
    return b"".join(part.tobytes() for part in parts)


def _unpacked(body: bytes) -> Vectors:
    """Returns the vectors that `_packed` packed."""
    import numpy as np

    from turnwise.matching.recall import CodedVectors

    count = int(np.frombuffer(body, "<i8", 1)[0])
    numbers = np.frombuffer(body, "<i8", count, 8)
    scales = np.frombuffer(body, "<f4", count, 8 + 8 * count)
    codes = np.frombuffer(body, np.int8, offset=8 + 12 * count).reshape(count, -1)
    return Vectors(numbers, CodedVectors(codes, scales))


def _joined(parts: Sequence[Vectors]) -> Vectors:
    import numpy as np

    from turnwise.matching.recall import CodedVectors

    columns = ([each.numbers for each in parts], *zip(*(each.coded for each in parts), strict=True))
    numbers, codes, scales = map(np.concatenate, columns)
    return Vectors(numbers, CodedVectors(codes, scales))


def _chosen(vectors: Vectors, index: Any) -> Vectors:
    """Returns the vectors of a slice, or those at which a mask is true."""
    coded = vectors.coded
    return Vectors(vectors.numbers[index], coded._replace(codes=coded.codes[index], scales=coded.scales[index]))


def _later(vectors: Vectors, after: int) -> Vectors:
    new = vectors.numbers > after
    return vectors if new.all() else _chosen(vectors, new)
