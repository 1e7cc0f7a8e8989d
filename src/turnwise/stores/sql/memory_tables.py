"""The tables of memory, all under the distribution key of the sessions (`tables`)."""

from sqlalchemy import BigInteger, Column, Double, Index, Integer, LargeBinary, String, Table, Text, text

from turnwise.stores.sql.tables import metadata

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
# newest entries have a row each, with all their words (`memory_words`).
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

# Vectors of entries under the fingerprint of their encoder, in rows that are merged as they become many (`memory_vectors`).
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
