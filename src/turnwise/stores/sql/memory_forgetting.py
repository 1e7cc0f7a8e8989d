"""Deletes entries of memory: forgotten ones, with their texts in recorded steps, and expired ones."""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, or_, select, update

from turnwise.facts.memory import FORGOTTEN
from turnwise.stores.sql.memory_blocks import unpack_blocks
from turnwise.stores.sql.memory_rows import body_of
from turnwise.stores.sql.memory_tables import (
    memories,
    memory_blocks,
    memory_links,
    memory_recalls,
    memory_terms,
    memory_users,
    memory_vectors,
)
from turnwise.stores.sql.memory_vectors import remove as remove_vectors
from turnwise.stores.sql.memory_words import remove_words
from turnwise.stores.sql.memory_writes import change_user
from turnwise.stores.sql.rows import AnyRow
from turnwise.stores.sql.tables import events

STEP_ENTRIES = 100
"""The entries that one transaction deletes at most."""
_SHORT = 8
"""A shorter text is only overwritten where it is a whole value: as a part of another text it may mean anything."""

_m, _r, _e, _u = memories.c, memory_recalls.c, events.c, memory_users.c

_COLUMNS = (_m.number, _m.entry_id, _m.words, _m.text, _m.body)
_OF_OWNER = _m.owner == bindparam("at_owner")
_BY_IDS = select(*_COLUMNS).where(_OF_OWNER, _m.entry_id.in_(bindparam("ids", expanding=True)))
_OF_SESSION = select(*_COLUMNS).where(_OF_OWNER, _m.session_id == bindparam("at_session")).limit(STEP_ENTRIES)
_OF_USER = select(*_COLUMNS).where(_OF_OWNER).limit(STEP_ENTRIES)
_EXPIRED = select(*_COLUMNS).where(_OF_OWNER, _m.expires <= bindparam("now")).limit(STEP_ENTRIES)
_LOCK = select(_u.version).where(_u.owner == bindparam("at_owner")).with_for_update()
_SEEN = update(memory_users).where(_u.owner == bindparam("at_owner"), _u.seen < bindparam("now")).values(seen=bindparam("now"))
_DELETE = delete(memories).where(_OF_OWNER, _m.number.in_(bindparam("numbers", expanding=True)))
_UNLINK = delete(memory_links).where(
    memory_links.c.owner == bindparam("at_owner"), memory_links.c.newer.in_(bindparam("numbers", expanding=True))
)
_RECALLS = select(_r.entry_id, _r.log, _r.sequence).where(
    _r.owner == bindparam("at_owner"), _r.entry_id.in_(bindparam("ids", expanding=True))
)
_FORGET_RECALLS = delete(memory_recalls).where(
    _r.owner == bindparam("at_owner"), _r.entry_id.in_(bindparam("ids", expanding=True))
)
_IS_EVENT = (_e.owner == bindparam("at_owner")) & (_e.log == bindparam("at_log")) & (_e.sequence == bindparam("at_sequence"))
_BODY = select(_e.body).where(_IS_EVENT).with_for_update()
_SET_BODY = update(events).where(_IS_EVENT).values(body=bindparam("body"))


def _lock_memory(connection: Connection, owner: int) -> None:
    """Has others who write this memory wait: no entry is counted out twice, and none is left without the user's row."""
    connection.execute(_LOCK, {"at_owner": owner})


def forget_ids(connection: Connection, owner: int, ids: Collection[str]) -> int:
    """Forgets entries with those that they replace, and returns how many."""
    _lock_memory(connection, owner)
    rows: dict[int, AnyRow] = {}
    wanted = [id_ for id_ in ids if "\0" not in id_]
    while wanted:
        found = connection.execute(_BY_IDS, {"at_owner": owner, "ids": wanted}).all()
        new = {row.number: row for row in found if row.number not in rows}
        rows |= new
        wanted = [id_ for row in new.values() for id_ in body_of(row.body).get("supersedes", ())]
    _remove(connection, owner, list(rows.values()), is_redacted=True)
    return len(rows)


def forget_session(connection: Connection, owner: int, session_id: str) -> int:
    """Forgets some entries of a session or from it, and returns how many; 0 at the end."""
    _lock_memory(connection, owner)
    rows = connection.execute(_OF_SESSION, {"at_owner": owner, "at_session": session_id}).all()
    _remove(connection, owner, rows, is_redacted=True)
    return len(rows)


def forget_some(connection: Connection, owner: int) -> int:
    """Forgets some entries of a user, and returns how many; 0 when there is nothing left of the memory."""
    _lock_memory(connection, owner)
    rows = connection.execute(_OF_USER, {"at_owner": owner}).all()
    _remove(connection, owner, rows, is_redacted=True)
    if not rows:
        for table in (memory_blocks, memory_links, memory_recalls, memory_terms, memory_vectors, memory_users):
            connection.execute(delete(table).where(table.c.owner == owner))
    return len(rows)


def delete_of_session(connection: Connection, owner: int, session: int, ranges: Sequence[tuple[int, int]]) -> int:
    """Deletes some entries that belong to a deleted session or that it hid, and returns how many.

    Args:
        ranges: The first and last numbers of the events that no other session shows.
    """
    in_range = or_(*(and_(_m.sequence >= first, _m.sequence <= last) for first, last in ranges))
    of_log = and_(_m.log == session, or_(_m.scope == session, _m.hidden == 1), in_range)
    is_theirs = and_(_m.owner == owner, or_(of_log, and_(_m.log == 0, _m.scope == session)))
    _lock_memory(connection, owner)
    rows = connection.execute(select(*_COLUMNS).where(is_theirs).limit(STEP_ENTRIES)).all()
    _remove(connection, owner, rows, is_redacted=True)
    return len(rows)


def delete_expired(connection: Connection, owner: int, now: float) -> int:
    """Deletes some entries that expired by that time, and returns how many. From then on time does not run back behind it."""
    _lock_memory(connection, owner)
    connection.execute(_SEEN, {"at_owner": owner, "now": now})
    rows = connection.execute(_EXPIRED, {"at_owner": owner, "now": now}).all()
    _remove(connection, owner, rows, is_redacted=False)
    return len(rows)


def _remove(connection: Connection, owner: int, rows: Sequence[AnyRow], *, is_redacted: bool) -> None:
    """Deletes these entries with their words, vectors and links. If redacted, also their texts in recorded steps."""
    if not rows:
        return
    # The user's row first: whoever else writes this memory waits.
    size = sum(len(row.text.encode()) for row in rows)
    change_user(connection, owner, -len(rows), -sum(row.words for row in rows), -size)
    numbers = [row.number for row in rows]
    if is_redacted:
        _redact(connection, owner, {row.entry_id: row.text for row in rows})
    connection.execute(_DELETE, {"at_owner": owner, "numbers": numbers})
    unpack_blocks(connection, owner, numbers)
    connection.execute(_UNLINK, {"at_owner": owner, "numbers": numbers})
    remove_words(connection, owner, [(row.number, row.text) for row in rows])
    remove_vectors(connection, owner, numbers)


def _redact(connection: Connection, owner: int, texts: dict[str, str]) -> None:
    """Overwrites the texts in the events that hold them."""
    at = {"at_owner": owner, "ids": list(texts)}
    held: dict[tuple[int, int], list[str]] = {}
    for row in connection.execute(_RECALLS, at):
        held.setdefault((row.log, row.sequence), []).append(texts[row.entry_id])
    for (log, sequence), forgotten in sorted(held.items()):
        place = {"at_owner": owner, "at_log": log, "at_sequence": sequence}
        body = connection.execute(_BODY, place).scalar()
        if body is not None:
            connection.execute(_SET_BODY, place | {"body": redacted(body, forgotten)})
    connection.execute(_FORGET_RECALLS, at)


def redacted(body: str, forgotten: Iterable[str]) -> str:
    """Returns the body of an event without these texts in its steps, its tool results and its note."""
    event: dict[str, Any] = json.loads(body)
    longest_first = sorted(filter(None, forgotten), key=len, reverse=True)
    actions = event.get("actions") or {}
    for step in actions.get("steps") or ():
        step["value"] = _without(step.get("value"), longest_first)
    for name in ("note", "note_memory"):
        if name in actions:
            actions[name] = _without(actions[name], longest_first)
    for part in (event.get("content") or {}).get("parts") or ():
        if part.get("kind") == "tool_result":
            part["result"] = _without(part.get("result"), longest_first)
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def _without(value: Any, texts: Sequence[str]) -> Any:
    """Returns a JSON value without these texts: whole strings, and long texts inside strings."""
    if isinstance(value, list):
        return [_without(each, texts) for each in value]
    if isinstance(value, dict):
        return {key: _without(each, texts) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    for text in texts:
        if value == text:
            return FORGOTTEN
        if len(text) >= _SHORT:
            value = value.replace(text, FORGOTTEN)
    return value
