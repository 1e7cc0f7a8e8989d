"""The fields of entries that a search compares, besides words and vectors: as arrays, and packed into one row for each full
block.

A packed row's body has the number of entries (8 bytes), the entries as in `ROW`, and then the roles of those that have any, as
JSON. A block is packed when it is full. A change of one of its entries deletes the row, and the entries themselves are read.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, delete, func, insert, select

from turnwise.stores.sql.memory_rows import body_of
from turnwise.stores.sql.memory_tables import memories, memory_blocks
from turnwise.stores.sql.memory_words import BLOCK
from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.stores.sql.rows import moment
from turnwise.stores.sql.tables import column_params

NO_SCOPE = -1
"""The scope of entries of the whole user."""
AT_ONCE = 8
"""The most blocks that one transaction packs: a turn may wait for it."""

KIND_CODES = {"fact": 1, "entity": 2, "message": 3, "summary": 4}
SPAN_CODES = {"working": 1, "short": 2, "long": 3}
SPEAKER_CODES = {"user": 1, "agent": 2, "tool": 3, "document": 4, "operator": 5}
"""Numbers for names, as stored: they never change."""

ROW = np.dtype(
    [
        ("number", "<i8"),
        ("log", "<i8"),
        ("sequence", "<i8"),
        ("scope", "<i8"),
        ("hidden", "?"),
        ("expires", "<f8"),
        ("time", "<f8"),
        ("kind", "u1"),
        ("span", "u1"),
        ("said_by", "u1"),
    ]
)

_m, _b = memories.c, memory_blocks.c

_COLUMNS = ("number", "log", "sequence", "scope", "hidden", "expires", "created_at", "kind", "span", "said_by", "body")
_ROWS = PreparedStatement(
    select(*(_m[name] for name in _COLUMNS))
    .where(_m.owner == bindparam("at_owner"), _m.number >= bindparam("first"), _m.number < bindparam("end"))
    .order_by(_m.number)
)
_PACKED = PreparedStatement(
    select(_b.block, _b.body)
    .where(_b.owner == bindparam("at_owner"), _b.block >= bindparam("first"), _b.block < bindparam("end"))
    .order_by(_b.block)
)
_BLOCKS = PreparedStatement(select(_b.block).where(_b.owner == bindparam("at_owner")))
_FIRST = PreparedStatement(select(func.min(_m.number)).where(_m.owner == bindparam("at_owner")))
_INSERT = PreparedStatement(insert(memory_blocks).values(column_params(memory_blocks)).inline())
_DELETE = delete(memory_blocks).where(_b.owner == bindparam("at_owner"), _b.block.in_(bindparam("blocks", expanding=True)))


class Rows(NamedTuple):
    """Entries in the order of their numbers."""

    values: NDArray[Any]
    """Of type `ROW`."""
    roles: dict[int, frozenset[str]]
    """By number, of the entries that only some roles may read."""


def read_rows(connection: Connection, owner: int, first: int, end: int) -> Iterator[Rows]:
    """Yields the entries from number `first` up to `end`, not included, in the order of their numbers."""
    at = first
    for block, body in _PACKED.rows(connection, {"at_owner": owner, "first": -(-first // BLOCK), "end": end // BLOCK}):
        if at < block * BLOCK:
            yield _read(connection, owner, at, block * BLOCK)
        yield _unpacked(body)
        at = (block + 1) * BLOCK
    if at < end:
        yield _read(connection, owner, at, end)


def pack_blocks(connection: Connection, owner: int, first: int, end: int) -> None:
    """Packs full blocks after a write of the numbers from `first` up to `end`, if it filled one.

    The transaction must have locked the user's row.
    """
    if first // BLOCK == end // BLOCK:
        return
    row = _FIRST.row(connection, {"at_owner": owner})
    if row is None or row[0] is None:
        return
    packed = {row[0] for row in _BLOCKS.rows(connection, {"at_owner": owner})}
    missing = [block for block in range(row[0] // BLOCK, end // BLOCK) if block not in packed]
    filled = end // BLOCK - first // BLOCK
    for block in missing[-max(AT_ONCE, filled) :]:
        body = _pack(_read(connection, owner, block * BLOCK, (block + 1) * BLOCK))
        _INSERT.run_many(connection, [{"owner": owner, "block": block, "body": body}])


def unpack_blocks(connection: Connection, owner: int, numbers: Iterable[int]) -> None:
    """Deletes the packed blocks of changed entries. The transaction must have locked the user's row."""
    blocks = {number // BLOCK for number in numbers}
    if blocks:
        connection.execute(_DELETE, {"at_owner": owner, "blocks": sorted(blocks)})


def _read(connection: Connection, owner: int, first: int, end: int) -> Rows:
    """Reads the values of entries with numbers from `first` up to `end` as an array."""
    rows = _ROWS.rows(connection, {"at_owner": owner, "first": first, "end": end})
    values = np.empty(len(rows), ROW)
    if rows:
        for name, column in zip(ROW.names or (), _columns(rows), strict=True):
            values[name] = column
    return Rows(values, {row[0]: frozenset(body_of(row[-1])["roles"]) for row in rows if '"roles"' in row[-1]})


def _columns(rows: Sequence[Sequence[Any]]) -> Iterator[Any]:
    """Yields the values of each column in the order of `ROW`."""
    numbers, logs, sequences, scopes, hidden, expires, created, kinds, spans, speakers, _ = zip(*rows, strict=True)
    yield from (numbers, logs, sequences)
    yield [NO_SCOPE if scope is None else scope for scope in scopes]
    yield hidden
    yield [np.inf if at is None else at for at in expires]
    yield [moment(at).timestamp() for at in created]
    for names, codes in ((kinds, KIND_CODES), (spans, SPAN_CODES), (speakers, SPEAKER_CODES)):
        yield [codes[name] for name in names]


def _pack(rows: Rows) -> bytes:
    roles = {number: sorted(names) for number, names in rows.roles.items()}
    count = np.array([len(rows.values)], "<i8")
    return count.tobytes() + rows.values.tobytes() + (json.dumps(roles).encode() if roles else b"")


def _unpacked(body: bytes) -> Rows:
    count = int(np.frombuffer(body, "<i8", 1)[0])
    values = np.frombuffer(body, ROW, count, 8)
    roles = body[8 + count * ROW.itemsize :]
    return Rows(values, {int(number): frozenset(names) for number, names in json.loads(roles).items()} if roles else {})
