"""What searches of memory read by blocks of entries: the words, and the fields that a search compares.

Fields: a packed row's body has the number of entries (8 bytes), the entries as in `ROW`, and then the roles of those that have
any, as JSON. A block is packed when it is full. A change of one of its entries deletes the row, and the entries themselves are
read.

Words: one row for each word and block of entries. A row's body has eight hexadecimal digits for each entry: its place in the
block, how often it has the word, and its length in words. One row for each word is slow for a turn that remembers. So each new
entry is one row: its word is empty, its block is the entry's number, and its body is a JSON object of the words' counts. When
the numbers pass a multiple of `UNPACKED_ENTRIES`, these words move to the rows of the blocks.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from turnwise.matching.recall import Postings, terms
from turnwise.stores.sql.memory_rows import body_of, memories, memory_blocks, memory_terms
from turnwise.stores.sql.prepared import PreparedLookup, PreparedStatement
from turnwise.stores.sql.rows import moment
from turnwise.stores.sql.tables import column_params, insert_for

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
            yield _read_entries(connection, owner, at, block * BLOCK)
        yield _unpacked_body(body)
        at = (block + 1) * BLOCK
    if at < end:
        yield _read_entries(connection, owner, at, end)


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
        body = _packed_body(_read_entries(connection, owner, block * BLOCK, (block + 1) * BLOCK))
        _INSERT.run_many(connection, [{"owner": owner, "block": block, "body": body}])


def unpack_blocks(connection: Connection, owner: int, numbers: Iterable[int]) -> None:
    """Deletes the packed blocks of changed entries. The transaction must have locked the user's row."""
    blocks = {number // BLOCK for number in numbers}
    if blocks:
        connection.execute(_DELETE, {"at_owner": owner, "blocks": sorted(blocks)})


def _read_entries(connection: Connection, owner: int, first: int, end: int) -> Rows:
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


def _packed_body(rows: Rows) -> bytes:
    roles = {number: sorted(names) for number, names in rows.roles.items()}
    count = np.array([len(rows.values)], "<i8")
    return count.tobytes() + rows.values.tobytes() + (json.dumps(roles).encode() if roles else b"")


def _unpacked_body(body: bytes) -> Rows:
    count = int(np.frombuffer(body, "<i8", 1)[0])
    values = np.frombuffer(body, ROW, count, 8)
    roles = body[8 + count * ROW.itemsize :]
    return Rows(values, {int(number): frozenset(names) for number, names in json.loads(roles).items()} if roles else {})


BLOCK = 256
"""The entries of a block. A word that all entries have takes 2 kB in each."""
UNPACKED = ""
"""The word of rows that have all words of one entry. No word is empty."""
UNPACKED_ENTRIES = 64
"""How many new entries at most have a row of their own."""
_DIGITS = 8

_t = memory_terms.c

_IS_ROW = (_t.owner == bindparam("at_owner")) & (_t.term == bindparam("at_term")) & (_t.block == bindparam("at_block"))
_READ = PreparedLookup(
    select(_t.term, _t.block, _t.body).where(_t.owner == bindparam("at_owner")).order_by(_t.term, _t.block), _t.term
)
_WORD_ROWS = select(_t.term, _t.block, _t.body).where(
    _t.owner == bindparam("at_owner"), _t.block == bindparam("at_block"), _t.term.in_(bindparam("terms", expanding=True))
)
_SET = update(memory_terms).where(_IS_ROW).values(body=bindparam("body"))
_REMOVE = delete(memory_terms).where(_IS_ROW)
_IS_UNPACKED = (_t.owner == bindparam("at_owner")) & (_t.term == UNPACKED)
_INSERT_UNPACKED = PreparedStatement(insert(memory_terms).values(column_params(memory_terms)).inline())
_READ_UNPACKED = PreparedStatement(select(_t.block, _t.body).where(_IS_UNPACKED).order_by(_t.block))
_DELETE_UNPACKED = PreparedStatement(delete(memory_terms).where(_IS_UNPACKED))
_REMOVE_UNPACKED = delete(memory_terms).where(_IS_UNPACKED, _t.block.in_(bindparam("numbers", expanding=True)))


@cache
def _append_words(dialect: str) -> PreparedStatement:
    values: dict[str, Any] = {name: bindparam(name) for name in ("owner", "term", "block", "body")}
    inserted = insert_for(dialect, memory_terms).values(values)
    added = {"body": _t.body + inserted.excluded.body}
    return PreparedStatement(inserted.on_conflict_do_update(index_elements=["owner", "term", "block"], set_=added))


def add_words(
    connection: Connection, owner: int, first: int, end: int, numbered: Sequence[tuple[int, Mapping[str, int]]]
) -> None:
    """Stores the words of new entries. Their numbers are from `first` up to but excluding `end`; some may be unused."""
    if first // UNPACKED_ENTRIES != end // UNPACKED_ENTRIES:
        new = [(number, json.loads(body)) for number, body in _READ_UNPACKED.rows(connection, {"at_owner": owner})]
        if new:
            _DELETE_UNPACKED.run_many(connection, [{"at_owner": owner}])
        _add_to_blocks(connection, owner, [*new, *numbered])
    elif numbered:
        at = {"owner": owner, "term": UNPACKED}
        rows = [at | {"block": number, "body": json.dumps(words, ensure_ascii=False)} for number, words in numbered]
        _INSERT_UNPACKED.run_many(connection, rows)


def _add_to_blocks(connection: Connection, owner: int, numbered: Iterable[tuple[int, Mapping[str, int]]]) -> None:
    """Stores the words of entries in the rows of their blocks."""
    rows: dict[tuple[str, int], str] = {}
    for number, words in numbered:
        length = _stored_length(words)
        for term, count in words.items():
            at = (term, number // BLOCK)
            rows[at] = rows.get(at, "") + _word_digits(number, count, length)
    if rows:
        # In one order everywhere, so that two transactions never deadlock.
        values = [{"owner": owner, "term": term, "block": block, "body": rows[term, block]} for term, block in sorted(rows)]
        _append_words(connection.dialect.name).run_many(connection, values)


def _stored_length(words: Mapping[str, int]) -> int:
    return min(sum(words.values()), 0xFFFF)


def _word_digits(number: int, count: int, length: int) -> str:
    return f"{number % BLOCK:02x}{min(count, 255):02x}{length:04x}"


def _block_rows(number: int, counts: Mapping[str, int], words: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    """Yields those of an entry's words that are wanted, as rows of its block have them."""
    length = _stored_length(counts)
    for word in words:
        if (count := counts.get(word)) is not None:
            yield word, number // BLOCK, _word_digits(number, count, length)


def remove_words(connection: Connection, owner: int, numbered: Sequence[tuple[int, str]]) -> None:
    """Removes the words of entries, given by their texts."""
    connection.execute(_REMOVE_UNPACKED, {"at_owner": owner, "numbers": [number for number, _ in numbered]})
    by_block: dict[int, dict[str, set[int]]] = {}
    for number, text in numbered:
        for term in terms(text):
            by_block.setdefault(number // BLOCK, {}).setdefault(term, set()).add(number % BLOCK)
    for block, places in sorted(by_block.items()):
        found = connection.execute(_WORD_ROWS, {"at_owner": owner, "at_block": block, "terms": list(places)}).all()
        at = {"at_owner": owner, "at_block": block}
        for term, _, body in sorted(found):
            left = _without_places(body, places[term])
            if left:
                connection.execute(_SET, at | {"at_term": term, "body": left})
            else:
                connection.execute(_REMOVE, at | {"at_term": term})


def _without_places(body: str, places: set[int]) -> str:
    parts = [body[at : at + _DIGITS] for at in range(0, len(body), _DIGITS)]
    return "".join(part for part in parts if int(part[:2], 16) not in places)


def read_postings(connection: Connection, owner: int, words: Sequence[str]) -> dict[str, Postings]:
    """Returns the entries that have these words."""
    if not words:
        return {}
    bodies: dict[str, list[str]] = {}
    blocks: dict[str, list[tuple[int, int]]] = {}
    for term, block, body in _READ.rows(connection, {"at_owner": owner}, [UNPACKED, *words]):
        found = ((term, block, body),) if term != UNPACKED else _block_rows(block, json.loads(body), words)
        for term_, block_, digits in found:
            bodies.setdefault(term_, []).append(digits)
            blocks.setdefault(term_, []).append((block_, len(digits) // _DIGITS))
    kind = np.dtype([("place", "u1"), ("count", "u1"), ("length", ">u2")])
    postings: dict[str, Postings] = {}
    for term, parts in blocks.items():
        read = np.frombuffer(bytes.fromhex("".join(bodies[term])), kind)
        firsts = np.repeat(np.array([block * BLOCK for block, _ in parts], np.int64), [count for _, count in parts])
        numbers = firsts + read["place"]
        postings[term] = Postings(numbers, read["count"].astype(np.float32), read["length"].astype(np.float32))
    return postings
