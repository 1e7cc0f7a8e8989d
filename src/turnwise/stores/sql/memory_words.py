"""The words of a user's entries: one row for each word and block of entries.

A row's body has eight hexadecimal digits for each entry: its place in the block, how often it has the word, and its length
in words.

One row for each word is slow for a turn that remembers. So each new entry is one row: its word is empty, its block is the
entry's number, and its body is a JSON object of the words' counts. When the numbers pass a multiple of `UNPACKED_ENTRIES`,
these words move to the rows of the blocks.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from turnwise.matching.recall import Postings, terms
from turnwise.stores.sql.memory_tables import memory_terms
from turnwise.stores.sql.prepared import PreparedLookup, PreparedStatement
from turnwise.stores.sql.tables import column_params, insert_for

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
_ROWS = select(_t.term, _t.block, _t.body).where(
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
def _append(dialect: str) -> PreparedStatement:
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
            rows[at] = rows.get(at, "") + _digits(number, count, length)
    if rows:
        # In one order everywhere, so that two transactions never deadlock.
        values = [{"owner": owner, "term": term, "block": block, "body": rows[term, block]} for term, block in sorted(rows)]
        _append(connection.dialect.name).run_many(connection, values)


def _stored_length(words: Mapping[str, int]) -> int:
    return min(sum(words.values()), 0xFFFF)


def _digits(number: int, count: int, length: int) -> str:
    return f"{number % BLOCK:02x}{min(count, 255):02x}{length:04x}"


def _block_rows(number: int, counts: Mapping[str, int], words: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    """Yields those of an entry's words that are wanted, as rows of its block have them."""
    length = _stored_length(counts)
    for word in words:
        if (count := counts.get(word)) is not None:
            yield word, number // BLOCK, _digits(number, count, length)


def remove_words(connection: Connection, owner: int, numbered: Sequence[tuple[int, str]]) -> None:
    """Removes the words of entries, given by their texts."""
    connection.execute(_REMOVE_UNPACKED, {"at_owner": owner, "numbers": [number for number, _ in numbered]})
    by_block: dict[int, dict[str, set[int]]] = {}
    for number, text in numbered:
        for term in terms(text):
            by_block.setdefault(number // BLOCK, {}).setdefault(term, set()).add(number % BLOCK)
    for block, places in sorted(by_block.items()):
        found = connection.execute(_ROWS, {"at_owner": owner, "at_block": block, "terms": list(places)}).all()
        at = {"at_owner": owner, "at_block": block}
        for term, _, body in sorted(found):
            left = _without(body, places[term])
            if left:
                connection.execute(_SET, at | {"at_term": term, "body": left})
            else:
                connection.execute(_REMOVE, at | {"at_term": term})


def _without(body: str, places: set[int]) -> str:
    parts = [body[at : at + _DIGITS] for at in range(0, len(body), _DIGITS)]
    return "".join(part for part in parts if int(part[:2], 16) not in places)


def read_postings(connection: Connection, owner: int, words: Sequence[str]) -> dict[str, Postings]:
    """Returns the entries that have these words."""
    import numpy as np

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
