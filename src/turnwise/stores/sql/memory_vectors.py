"""Vectors of entries: stored one row for each batch, and merged into blocks.

A row's body has the numbers of its entries (8 bytes each), a scale for each vector (4 bytes), then the vectors as signed bytes.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, insert, select

from turnwise.ports.memory import UnencodedText
from turnwise.stores.sql.memory_tables import memories, memory_users, memory_vectors
from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.stores.sql.tables import column_params

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK_VECTORS = 256
SMALL_ROWS = 32
"""So many rows of few vectors are merged into one."""

_m, _u, _v = memories.c, memory_users.c, memory_vectors.c

_OF_ENCODER = (_v.owner == bindparam("at_owner")) & (_v.encoder == bindparam("at_encoder"))
_READ = PreparedStatement(select(_v.body).where(_OF_ENCODER, _v.last > bindparam("after")).order_by(_v.first))
_LAST = select(func.coalesce(func.max(_v.last), 0)).where(_OF_ENCODER)
_SMALL = select(_v.first, _v.count, _v.body).where(_OF_ENCODER, _v.count < BLOCK_VECTORS).order_by(_v.first)
_INSERT = insert(memory_vectors).values(column_params(memory_vectors)).inline()
_DELETE = delete(memory_vectors).where(_OF_ENCODER, _v.first == bindparam("at_first"))
_DELETE_OTHERS = delete(memory_vectors).where(_v.owner == bindparam("at_owner"), _v.encoder != bindparam("at_encoder"))
_HOLDING = select(_v.encoder, _v.first, _v.body).where(
    _v.owner == bindparam("at_owner"), _v.first <= bindparam("highest"), _v.last >= bindparam("lowest")
)
_UNENCODED = (
    select(_m.number, _m.text)
    .where(_m.owner == bindparam("at_owner"), _m.number > bindparam("after"), _m.kind != "entity")
    .order_by(_m.number)
    .limit(bindparam("at_most"))
)
_EXISTING = select(_m.number).where(_m.owner == bindparam("at_owner"), _m.number.in_(bindparam("numbers", expanding=True)))
_LOCK = select(_u.version).where(_u.owner == bindparam("at_owner")).with_for_update()


class Vectors(NamedTuple):
    """The vectors of a user's entries under one encoder, in the order of the entries' numbers."""

    numbers: "NDArray[np.int64]"
    rows: "NDArray[np.float32]"


def unencoded(connection: Connection, owner: int, encoder: str, limit: int) -> Sequence[UnencodedText]:
    """Returns the next entries without a vector. Entities have none: their words are enough."""
    after = connection.execute(_LAST, {"at_owner": owner, "at_encoder": encoder}).scalar_one()
    rows = connection.execute(_UNENCODED, {"at_owner": owner, "after": after, "at_most": limit})
    return [UnencodedText(row.number, row.text) for row in rows]


def read_after(connection: Connection, owner: int, encoder: str, after: int) -> Sequence[Vectors]:
    """Returns the vectors of entries with higher numbers, in blocks in the order of the numbers."""
    rows = _READ.rows(connection, {"at_owner": owner, "at_encoder": encoder, "after": after})
    return [_later(_unpacked(row[0]), after) for row in rows]


def put(connection: Connection, owner: int, encoder: str, numbers: Sequence[int], vectors: "NDArray[np.float32]") -> None:
    """Stores vectors, except of entries that are gone, and of those that another process encoded meanwhile."""
    import numpy as np

    if connection.execute(_LOCK, {"at_owner": owner}).first() is None:
        return
    at = {"at_owner": owner, "at_encoder": encoder}
    last = connection.execute(_LAST, at).scalar_one()
    existing = set(connection.execute(_EXISTING, {"at_owner": owner, "numbers": list(numbers)}).scalars())
    kept = [place for place, number in enumerate(numbers) if number > last and number in existing]
    if not kept:
        return
    stored = Vectors(np.array([numbers[place] for place in kept], np.int64), np.asarray(vectors[kept], np.float32))
    small = connection.execute(_SMALL, at).all()
    vectors_in_small = sum(size for _, size, _ in small)
    if small and (len(small) >= SMALL_ROWS or vectors_in_small + len(kept) >= BLOCK_VECTORS):
        stored = _joined([*(_unpacked(row.body) for row in small), stored])
        connection.execute(_DELETE, [at | {"at_first": row.first} for row in small])
    connection.execute(_INSERT, [_row(owner, encoder, part) for part in _parts(stored)])
    if not unencoded(connection, owner, encoder, 1):
        # All entries have a vector of this encoder: those of an earlier one are of no more use.
        connection.execute(_DELETE_OTHERS, at)


def remove(connection: Connection, owner: int, numbers: Collection[int]) -> None:
    """Removes the vectors of entries."""
    import numpy as np

    span = {"at_owner": owner, "lowest": min(numbers), "highest": max(numbers)}
    for encoder, first, body in connection.execute(_HOLDING, span).all():
        held = _unpacked(body)
        stays = ~np.isin(held.numbers, np.fromiter(numbers, np.int64))
        if stays.all():
            continue
        connection.execute(_DELETE, {"at_owner": owner, "at_encoder": encoder, "at_first": first})
        if stays.any():
            connection.execute(_INSERT, _row(owner, encoder, Vectors(held.numbers[stays], held.rows[stays])))


def _parts(vectors: Vectors) -> Sequence[Vectors]:
    starts = range(0, len(vectors.numbers), BLOCK_VECTORS)
    ends = [(at, at + BLOCK_VECTORS) for at in starts]
    return [Vectors(vectors.numbers[at:end], vectors.rows[at:end]) for at, end in ends]


def _row(owner: int, encoder: str, vectors: Vectors) -> dict[str, Any]:
    first, last = int(vectors.numbers[0]), int(vectors.numbers[-1])
    at = {"owner": owner, "encoder": encoder, "first": first, "last": last}
    return at | {"count": len(vectors.numbers), "body": _packed(vectors)}


def _packed(vectors: Vectors) -> bytes:
    import numpy as np

    scales = (np.maximum(np.abs(vectors.rows).max(axis=1), 1e-9) / 127).astype("<f4")
    small = np.rint(vectors.rows / scales[:, None]).astype(np.int8)
    count = np.array([len(vectors.numbers)], "<i8")
    return b"".join(part.tobytes() for part in (count, vectors.numbers.astype("<i8"), scales, small))


def _unpacked(body: bytes) -> Vectors:
    import numpy as np

    count = int(np.frombuffer(body, "<i8", 1)[0])
    numbers = np.frombuffer(body, "<i8", count, 8)
    scales = np.frombuffer(body, "<f4", count, 8 + 8 * count)
    small = np.frombuffer(body, np.int8, offset=8 + 12 * count).reshape(count, -1)
    return Vectors(numbers, small * scales[:, None])


def _joined(parts: Sequence[Vectors]) -> Vectors:
    import numpy as np

    return Vectors(np.concatenate([each.numbers for each in parts]), np.concatenate([each.rows for each in parts]))


def _later(vectors: Vectors, after: int) -> Vectors:
    new = vectors.numbers > after
    return vectors if new.all() else Vectors(vectors.numbers[new], vectors.rows[new])
