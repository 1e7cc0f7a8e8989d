"""Writes entries of memory, in the transaction of the append that they come with or in one of their own."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, case, insert, select, update

from turnwise.facts.errors import StorageUsed, StoreError
from turnwise.facts.memory import ENTRIES, SPAN_SECONDS, SUPERSEDED, MemoryEntry
from turnwise.matching.recall import terms
from turnwise.stores.sql.ids import new_id
from turnwise.stores.sql.memory_blocks import pack_blocks, unpack_blocks
from turnwise.stores.sql.memory_rows import body_of, body_text
from turnwise.stores.sql.memory_tables import memories, memory_links, memory_recalls, memory_users
from turnwise.stores.sql.memory_words import BLOCK, add_words
from turnwise.stores.sql.prepared import PreparedLookup, PreparedStatement
from turnwise.stores.sql.rows import time_text
from turnwise.stores.sql.tables import clock, column_params, insert_for, owner_of

log = logging.getLogger("turnwise.stores")

_m, _u = memories.c, memory_users.c

_KNOWN = PreparedLookup(select(_m.entry_id, _m.number, _m.hidden).where(_m.owner == bindparam("at_owner")), _m.entry_id)
_OLDER = select(_m.entry_id, _m.body).where(
    _m.owner == bindparam("at_owner"), _m.entry_id.in_(bindparam("ids", expanding=True))
)
_MOVE = (
    update(memories)
    .where(_m.owner == bindparam("at_owner"), _m.number == bindparam("at_number"))
    .values(log=bindparam("log"), sequence=bindparam("sequence"), hidden=0)
)
_INSERT_LINKS = PreparedStatement(insert(memory_links).values(column_params(memory_links)).inline())
_HIDE = (
    update(memories)
    .where(
        _m.owner == bindparam("at_owner"),
        _m.log == bindparam("at_log"),
        _m.sequence >= bindparam("first"),
        _m.sequence < bindparam("end"),
    )
    .values(hidden=1)
    .returning(_m.number)
)
_CHANGED = (
    update(memory_users)
    .where(_u.owner == bindparam("at_owner"))
    .values(
        version=_u.version + 1,
        entries=_u.entries + bindparam("more"),
        words=_u.words + bindparam("more_words"),
        bytes=_u.bytes + bindparam("more_bytes"),
    )
)
_GIVE_BACK = (
    update(memory_users)
    .where(_u.owner == bindparam("at_owner"))
    .values(
        entries=_u.entries - bindparam("fewer"),
        words=_u.words - bindparam("fewer_words"),
        bytes=_u.bytes - bindparam("fewer_bytes"),
    )
)


class NewEntry(NamedTuple):
    """An entry to store."""

    entry: MemoryEntry
    session_id: str
    """The id of the session that it came from, or belongs to; empty without one."""
    scope: int | None
    """The number of the session to which it belongs; None for all of the user's."""
    log: int = 0
    """The log of its event; 0 without an event."""
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class _Room:
    """The values of a user's row after a write."""

    first: int
    """The number of the first new entry."""
    size: int
    words: int
    bytes: int
    """What was reserved."""
    entries: int
    """The entries of the user, with all that was reserved."""
    now: float


@cache
def _insert(dialect: str) -> PreparedStatement:
    """Returns the statement that inserts entries, except those whose id is stored already."""
    inserted = insert_for(dialect, memories).values(column_params(memories))
    return PreparedStatement(inserted.on_conflict_do_nothing(index_elements=["owner", "entry_id"]).inline())


@cache
def _reserve(dialect: str) -> PreparedStatement:
    """Returns the statement that adds to a user's counts and reserves numbers for new entries."""
    values = column_params(memory_users) | {"seen": clock()}
    inserted = insert_for(dialect, memory_users).values(values)
    changed = {
        "next": _u.next + bindparam("count"),
        "seen": case((clock() > _u.seen, clock()), else_=_u.seen),
        "entries": _u.entries + inserted.excluded.entries,
        "words": _u.words + inserted.excluded.words,
        "bytes": _u.bytes + inserted.excluded.bytes,
    }
    upsert = inserted.on_conflict_do_update(index_elements=["owner"], set_=changed)
    return PreparedStatement(upsert.returning(_u.app, _u.user_id, _u.next, _u.entries, _u.seen))


def remember(connection: Connection, app: str, user: str, new: Sequence[NewEntry], *, strict: bool = True) -> None:
    """Stores entries. One that is stored already stays; if it is hidden, it gets the new source and can be seen again.

    Args:
        strict: StorageUsed when the user would have too many entries. Otherwise those too many are left out.
    """
    owner, by_id = owner_of(app, user), {each.entry.id: each for each in new}
    # Without a text it was stored before, and perhaps forgotten since.
    words = {id_: terms(each.entry.text) for id_, each in by_id.items() if each.entry.text}
    # First of all, because it locks the user's row: what is known now stays known.
    room = _reserved(connection, app, user, words, _bytes(by_id[id_] for id_ in words)) if words else None
    stored = 0
    if room is not None:
        known = _known(connection, owner, list(words)) if room.entries > ENTRIES else {}
        added = [by_id[id_] for id_ in words if id_ not in known][: _left(user, room, len(known), strict=strict)]
        stored = _add(connection, owner, added, words, room)
    if stored < len(by_id):
        _show_again(connection, owner, by_id)


def _known(connection: Connection, owner: int, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Returns the numbers of entries that are stored, and whether they are hidden."""
    return {id_: (number, hidden) for id_, number, hidden in _KNOWN.rows(connection, {"at_owner": owner}, ids)}


def _show_again(connection: Connection, owner: int, by_id: Mapping[str, NewEntry]) -> None:
    """Gives hidden entries the source with which they come again."""
    moved = [
        {"at_owner": owner, "at_number": number, "log": by_id[id_].log, "sequence": by_id[id_].sequence}
        for id_, (number, hidden) in _known(connection, owner, list(by_id)).items()
        if hidden and by_id[id_].log
    ]
    if moved:
        connection.execute(_MOVE, moved)
        change_user(connection, owner)
        unpack_blocks(connection, owner, [each["at_number"] for each in moved])


def _left(user: str, room: _Room, known: int, *, strict: bool) -> int | None:
    """Returns how many of the new entries there is room for; None for all."""
    above = room.entries - known - ENTRIES
    if above <= 0:
        return None
    if strict:
        raise StorageUsed(
            f"The memory of user {user!r} would have more than {ENTRIES:,} entries.", fix="Forget some of them first."
        )
    log.warning("The memory of a user is full: %d entries were not stored.", above)
    return max(0, room.size - known - above)


def _add(
    connection: Connection, owner: int, added: Sequence[NewEntry], words: Mapping[str, Mapping[str, int]], room: _Room
) -> int:
    """Stores those entries that are new, gives back the room of the others, and returns how many it stored."""
    older = _transitive(connection, owner, added)
    rows = [
        _row(owner, room.first + at, each, _length(words[each.entry.id]), older[at], room.now) for at, each in enumerate(added)
    ]
    # Nearly always all are new: then this one statement is enough.
    if rows and _insert(connection.dialect.name).run_many(connection, rows) < len(rows):
        known = _known(connection, owner, [row["entry_id"] for row in rows])
        rows = [row for row in rows if known[row["entry_id"]][0] == row["number"]]
    if len(rows) < room.size:
        # What searches read stays as it was.
        fewer = {"fewer": room.size - len(rows), "fewer_words": room.words - sum(row["words"] for row in rows)}
        fewer["fewer_bytes"] = room.bytes - sum(len(row["text"].encode()) for row in rows)
        connection.execute(_GIVE_BACK, {"at_owner": owner} | fewer)
    end = room.first + room.size
    pack_blocks(connection, owner, room.first, end)
    add_words(connection, owner, room.first, end, [(row["number"], words[row["entry_id"]]) for row in rows])
    links = [
        {"owner": owner, "older": id_, "newer": row["number"]}
        for row in rows
        for id_ in older[row["number"] - room.first]
        if id_ != row["entry_id"]
    ]
    if links:
        _INSERT_LINKS.run_many(connection, links)
    return len(rows)


def _bytes(new: Iterable[NewEntry]) -> int:
    return sum(len(each.entry.text.encode()) for each in new)


def _length(words: Mapping[str, int]) -> int:
    return sum(words.values())


def _reserved(connection: Connection, app: str, user: str, words: Mapping[str, Mapping[str, int]], size: int) -> _Room:
    """Counts entries with these words and bytes in the user's row, which gets locked, and returns their numbers."""
    if "\0" in app or "\0" in user:
        raise StoreError("A user's name holds the character NUL.", fix="Leave it out.")
    owner, count, total = owner_of(app, user), len(words), sum(map(_length, words.values()))
    # Not from 1: after all is deleted, no number returns.
    start = new_id() // BLOCK * BLOCK
    values: dict[str, Any] = {"owner": owner, "app": app, "user_id": user, "next": start + count, "version": start}
    row = _reserve(connection.dialect.name).row(
        connection, values | {"entries": count, "words": total, "bytes": size, "count": count}
    )
    assert row is not None
    if (row[0], row[1]) != (app, user):
        raise StoreError(f"User {user!r} cannot have a memory: its key is another user's.", fix="Use another id.")
    return _Room(row[2] - count, count, total, size, row[3], row[4])


def _transitive(connection: Connection, owner: int, added: Sequence[NewEntry]) -> list[list[str]]:
    """Returns what each entry replaces, with what those replace in turn."""
    named = {id_ for each in added for id_ in each.entry.supersedes}
    replaced: dict[str, Sequence[str]] = {}
    if named:
        rows = connection.execute(_OLDER, {"at_owner": owner, "ids": list(named)})
        replaced = {row.entry_id: body_of(row.body).get("supersedes", ()) for row in rows}
    return [
        list(
            dict.fromkeys(
                (*each.entry.supersedes, *(id_ for older in each.entry.supersedes for id_ in replaced.get(older, ())))
            )
        )[:SUPERSEDED]
        for each in added
    ]


def _row(owner: int, number: int, new: NewEntry, words: int, supersedes: Sequence[str], now: float) -> dict[str, Any]:
    """Returns the row of a new entry."""
    entry, entity = new.entry, new.entry.entity
    seconds = SPAN_SECONDS[entry.span]
    expires = entry.expires_at.timestamp() if entry.expires_at else None if seconds is None else now + seconds
    return {
        "owner": owner,
        "number": number,
        "entry_id": entry.id,
        "log": new.log,
        "sequence": new.sequence,
        "scope": new.scope,
        "hidden": 0,
        "expires": expires,
        "kind": entry.kind,
        "span": entry.span,
        "said_by": entry.said_by,
        "agent": entry.agent,
        "session_id": new.session_id,
        "created_at": time_text(entry.created_at),
        "words": words,
        "type": entity.type if entity else None,
        "normal": entity.normal if entity else None,
        "body": body_text(entry, supersedes),
        "text": entry.text,
    }


def change_user(connection: Connection, owner: int, entries: int = 0, words: int = 0, size: int = 0) -> None:
    """Counts a change of a user's memory, and how many entries, words and bytes it added or removed."""
    more = {"more": entries, "more_words": words, "more_bytes": size}
    connection.execute(_CHANGED, {"at_owner": owner} | more)


@cache
def _insert_recalls(dialect: str) -> PreparedStatement:
    inserted = insert_for(dialect, memory_recalls).values(column_params(memory_recalls))
    return PreparedStatement(inserted.on_conflict_do_nothing())


def note_recalls(connection: Connection, owner: int, log_: int, recalls: Iterable[tuple[str, int]]) -> None:
    """Stores which events hold the texts of which entries."""
    rows = [{"owner": owner, "entry_id": id_, "log": log_, "sequence": sequence} for id_, sequence in recalls]
    _insert_recalls(connection.dialect.name).run_many(connection, rows)


def hide(connection: Connection, owner: int, log_: int, first: int, end: int) -> None:
    """Hides the entries whose events a rewind hides: those of the log from `first` up to `end`, not included."""
    at = {"at_owner": owner, "at_log": log_, "first": first, "end": end}
    numbers = connection.execute(_HIDE, at).scalars().all()
    if numbers:
        change_user(connection, owner)
        unpack_blocks(connection, owner, numbers)
