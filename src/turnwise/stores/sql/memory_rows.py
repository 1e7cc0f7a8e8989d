"""The tables of memory, all under the distribution key of the sessions (`tables`).

Also entries as rows: which of them a reader sees, and conversions.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    and_,
    bindparam,
    func,
    select,
    text,
)

from turnwise.facts.memory import Entity, MemoryEntry, MemorySource
from turnwise.ports.memory import MemoryReader
from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.stores.sql.rows import moment
from turnwise.stores.sql.spans import Spans, is_visible
from turnwise.stores.sql.tables import clock, metadata, owner_of

_Name = Text().with_variant(Text(collation="C"), "postgresql")
_HAS_NORMAL = "normal IS NOT NULL"
_EXPIRES = "expires IS NOT NULL"


def _owner() -> Column[int]:
    return Column("owner", BigInteger, nullable=False, primary_key=True, autoincrement=False)


# One row for each user with a memory. `next` is the number of the next entry, `version` counts all changes but new entries.
# `seen` is the latest time at which an entry expired or was noted, by the database's clock in seconds: time never runs back
# behind it.
memory_users = Table(
    "turnwise_memory_users",
    metadata,
    _owner(),
    Column("app", _Name, nullable=False),
    Column("user_id", _Name, nullable=False),
    Column("next", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("seen", Double, nullable=False),
    # The stored entries, the sum of their words, and the UTF-8 bytes of their texts.
    Column("entries", BigInteger, nullable=False),
    Column("words", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False, server_default=text("0")),
    Index(None, "app", "user_id"),
)

# `number` counts a user's entries. `log` and `sequence` are the event that an entry came with; `log` is 0 without one.
# `scope` is the session to which it belongs, NULL for all of the user's. `hidden` is 1 after a rewind hid the event in its own
# session.
memories = Table(
    "turnwise_memories",
    metadata,
    _owner(),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("entry_id", _Name, nullable=False),
    Column("log", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("scope", BigInteger),
    Column("hidden", Integer, nullable=False),
    Column("expires", Double),
    Column("kind", String(16), nullable=False),
    Column("span", String(16), nullable=False),
    Column("said_by", String(16), nullable=False),
    Column("agent", _Name, nullable=False),
    Column("session_id", _Name, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("words", Integer, nullable=False),
    Column("type", _Name),
    Column("normal", _Name),
    # What else there is: the value of an entity, roles, superseded ids.
    Column("body", Text, nullable=False),
    Column("text", Text, nullable=False),
    Index(None, "owner", "entry_id", unique=True),
    Index(None, "owner", "log", "sequence"),
    Index("turnwise_memories_normal_ix", "owner", "normal", sqlite_where=text(_HAS_NORMAL), postgresql_where=text(_HAS_NORMAL)),
    Index("turnwise_memories_expires_ix", "owner", "expires", sqlite_where=text(_EXPIRES), postgresql_where=text(_EXPIRES)),
)

# The entries that have a word, in blocks of entries with neighbouring numbers: eight hexadecimal digits for each entry. The
# newest entries have a row each, with all their words (`memory_blocks`).
memory_terms = Table(
    "turnwise_memory_terms",
    metadata,
    _owner(),
    Column("term", _Name, primary_key=True),
    Column("block", BigInteger, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
)

# What a search compares of the entries of a full block, packed (`memory_blocks`).
memory_blocks = Table(
    "turnwise_memory_blocks",
    metadata,
    _owner(),
    Column("block", BigInteger, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
)

# Vectors of entries under the fingerprint of their encoder, in rows that are merged as they become many (`memory_index`).
memory_vectors = Table(
    "turnwise_memory_vectors",
    metadata,
    _owner(),
    Column("encoder", _Name, primary_key=True),
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("last", BigInteger, nullable=False),
    Column("count", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

# Which entry names which older one as replaced. Ids, because the older one may be forgotten.
memory_links = Table(
    "turnwise_memory_links",
    metadata,
    _owner(),
    Column("older", _Name, primary_key=True),
    Column("newer", BigInteger, primary_key=True, autoincrement=False),
    Index(None, "owner", "newer"),
)

# The events whose steps and tool results hold the text of an entry, so that forgetting it overwrites the text there.
memory_recalls = Table(
    "turnwise_memory_recalls",
    metadata,
    _owner(),
    Column("entry_id", _Name, primary_key=True),
    Column("log", BigInteger, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Index(None, "owner", "log", "sequence"),
)


_m, _u, _l = memories.c, memory_users.c, memory_links.c

COLUMNS = tuple(each for each in memories.c if each.name != "owner")
_FIRST_EXPIRY = select(func.min(_m.expires)).where(_m.owner == bindparam("at_owner"), _m.expires.is_not(None))
_USER = PreparedStatement(
    select(
        _u.app, _u.user_id, _u.next, _u.version, _u.seen, _u.words, clock(), _FIRST_EXPIRY.scalar_subquery().label("expires")
    ).where(_u.owner == bindparam("at_owner"))
)
_NEWER = (
    select(_l.older, *(_m[name] for name in ("number", "log", "sequence", "scope", "hidden", "expires", "body")))
    .join(memories, and_(_m.owner == _l.owner, _m.number == _l.newer))
    .where(_l.owner == bindparam("at_owner"), _l.older.in_(bindparam("ids", expanding=True)))
)


@dataclass(frozen=True, slots=True)
class MemoryUser:
    """A user who has a memory."""

    owner: int
    next: int
    """The number of the next entry."""
    version: int
    """Counts the changes besides new entries."""
    words: int
    """The number of words of all entries."""
    now: float
    """The time by which entries expire, in seconds. It never runs back."""
    has_expired: bool
    """Whether entries have expired that are still stored."""


def find_user(connection: Connection, app: str, user: str) -> MemoryUser | None:
    """Returns the user; None without a memory."""
    if "\0" in app or "\0" in user:
        return None
    owner = owner_of(app, user)
    row = _USER.row(connection, {"at_owner": owner})
    # Two users whose hashes are equal never share a memory.
    if row is None or (row[0], row[1]) != (app, user):
        return None
    _, _, next_, version, seen, words, clock_now, expires = row
    now = max(seen, clock_now)
    return MemoryUser(owner, next_, version, words, now, expires is not None and expires <= now)


class MemoryRow:
    """A stored entry."""

    def __init__(self, values: Sequence[Any]) -> None:
        by_name = dict(zip((column.name for column in COLUMNS), values, strict=True))
        self.number: int = by_name["number"]
        self.id: str = by_name["entry_id"]
        self.log: int = by_name["log"]
        self.sequence: int = by_name["sequence"]
        self.scope: int | None = by_name["scope"]
        self.hidden: int = by_name["hidden"]
        self.expires: float | None = by_name["expires"]
        self.text: str = by_name["text"]
        self.values: Mapping[str, Any] = by_name

    @cached_property
    def body(self) -> dict[str, Any]:
        return body_of(self.values["body"])

    def entry(self) -> MemoryEntry:
        """Returns the row as an entry."""
        values, session = self.values, self.values["session_id"]
        return MemoryEntry(
            id=self.id,
            kind=values["kind"],
            text=self.text,
            session=session if self.scope is not None else None,
            span=values["span"],
            expires_at=None if self.expires is None else datetime.fromtimestamp(self.expires, UTC),
            said_by=values["said_by"],
            agent=values["agent"],
            roles=tuple(self.body.get("roles", ())),
            entity=self._entity(),
            supersedes=tuple(self.body.get("supersedes", ())),
            created_at=moment(values["created_at"]),
            source=MemorySource(session=session, sequence=self.sequence) if self.log else None,
        )

    def _entity(self) -> Entity | None:
        kind, normal = self.values["type"], self.values["normal"]
        return None if kind is None else Entity(type=kind, value=self.body.get("value", normal), normal=normal)


def body_text(entry: MemoryEntry, supersedes: Sequence[str]) -> str:
    """Returns what an entry has besides the columns, as stored."""
    body: dict[str, Any] = {}
    if entry.roles:
        body["roles"] = list(entry.roles)
    if supersedes:
        body["supersedes"] = list(supersedes)
    if entry.entity is not None:
        body["value"] = entry.entity.value
    return json.dumps(body, ensure_ascii=False) if body else ""


def body_of(text: str) -> dict[str, Any]:
    """Returns what `body_text` stored."""
    body: dict[str, Any] = json.loads(text) if text else {}
    return body


class View:
    """The part of a user's memory that a reader sees."""

    def __init__(self, reader: MemoryReader, found: tuple[int, Spans] | None, now: float) -> None:
        self.is_everywhere, self.roles, self.now = reader.session is None, reader.roles, now
        self.number: int | None = found[0] if found is not None else None
        self.spans: Spans = found[1] if found is not None else ()

    def shows(self, log: int, sequence: int, scope: int | None, hidden: int) -> bool:
        """Returns whether the session that is read shows an entry with this source."""
        if self.is_everywhere:
            return not hidden
        if scope is None:
            return not hidden or is_visible(self.spans, log, sequence)
        return is_visible(self.spans, log, sequence) if log else scope == self.number

    def has_expired(self, expires: float | None) -> bool:
        return expires is not None and expires <= self.now

    def permits(self, body: Callable[[], dict[str, Any]]) -> bool:
        """Returns whether the caller's roles permit an entry with that body."""
        if self.roles is None:
            return True
        roles = body().get("roles")
        return not roles or not self.roles.isdisjoint(roles)

    def has(self, row: MemoryRow) -> bool:
        """Returns whether the reader sees the entry, superseded or not."""
        seen = not self.has_expired(row.expires) and self.shows(row.log, row.sequence, row.scope, row.hidden)
        return seen and self.permits(lambda: row.body)


def superseded_ids(connection: Connection, owner: int, view: View, ids: Sequence[str]) -> frozenset[str]:
    """Returns which of these entries are replaced by others that the reader sees."""
    if not ids:
        return frozenset()
    found = connection.execute(_NEWER, {"at_owner": owner, "ids": list(ids)})
    return frozenset(row.older for row in found if _is_seen(view, row))


def _is_seen(view: View, row: Any) -> bool:
    is_shown = not view.has_expired(row.expires) and view.shows(row.log, row.sequence, row.scope, row.hidden)
    return is_shown and view.permits(lambda: body_of(row.body))
