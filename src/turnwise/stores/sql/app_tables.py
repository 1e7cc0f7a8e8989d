"""The tables beside those of sessions: labels, legal holds, the audit log, definitions, and what an app's processes share."""

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, LargeBinary, String, Table, Text

from turnwise.stores.sql import tables
from turnwise.stores.sql.tables import Name, owner_column, session_column

metadata = tables.metadata
"""The tables of the whole store, with those of this file."""

# One row for each author's label. It repeats the decision's short columns, because it outlives the decision's row. `id` is new
# with every change.
labels = Table(
    "turnwise_labels",
    metadata,
    owner_column(),
    session_column(),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("source", Name, primary_key=True),
    Column("author", Name, primary_key=True),
    Column("id", BigInteger, nullable=False),
    # NULL: no agent should have been chosen.
    Column("label", Name),
    Column("unsure", Boolean, nullable=False),
    Column("weight", Double, nullable=False),
    Column("labelled_at", Text, nullable=False),
    Column("picked", Name),
    Column("probability", Double),
    Column("app", Name, nullable=False),
    Column("user_id", Name, nullable=False),
    Column("session_id", Name, nullable=False),
    Column("invocation_id", Name, nullable=False),
    Column("agent", Name, nullable=False),
    Column("method", Name, nullable=False),
    Column("confidence", Double, nullable=False),
    Column("outcome", Name, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("decided_at", Text, nullable=False),
    Column("note", Text, nullable=False),
    Index(None, "app", "id"),
    Index(None, "app", "author"),
)

# The log of changes of labels. `before` and `after` are labels as JSON, NULL for none.
label_changes = Table(
    "turnwise_label_changes",
    metadata,
    owner_column(),
    session_column(),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("app", Name, nullable=False),
    Column("user_id", Name, nullable=False),
    Column("source", Name, nullable=False),
    Column("author", Name, nullable=False),
    Column("actor", Name, nullable=False),
    Column("changed_at", Text, nullable=False),
    Column("before", Text),
    Column("after", Text),
    Index(None, "app", "author"),
    Index(None, "app", "actor"),
)

# Who reviews a decision now. `ends` is by the database's clock, in seconds.
label_claims = Table(
    "turnwise_label_claims",
    metadata,
    owner_column(),
    session_column(),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("app", Name, nullable=False),
    Column("user_id", Name, nullable=False),
    Column("reviewer", Name, nullable=False),
    Column("ends", Double, nullable=False),
    Index(None, "app", "reviewer"),
)

# Legal holds: while a user has one, nothing of that user is deleted.
holds = Table(
    "turnwise_holds",
    metadata,
    owner_column(),
    Column("hold_id", Name, primary_key=True),
    Column("app", Name, nullable=False),
    Column("user_id", Name, nullable=False),
    Column("author", Name, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Index(None, "app", "user_id", "hold_id"),
)

# Acts that an auditor asks for. `owner` is that of the user concerned. For an act on the app, it is that of the empty user, and
# `user_id` is NULL. The erasure of a user clears the names, and keeps `owner`.
audit = Table(
    "turnwise_audit",
    metadata,
    owner_column(),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("app", Name, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("actor", Name, nullable=False),
    Column("action", Name, nullable=False),
    Column("user_id", Name),
    Column("session_id", Name),
    Column("details", Text, nullable=False),
    Index(None, "app", "id"),
    Index(None, "app", "actor"),
)


# The app's revision of its definitions: each change raises it by one, and its row lock orders the writers of an app.
definition_revisions = Table(
    "turnwise_definition_revisions",
    metadata,
    Column("app", Name, primary_key=True),
    Column("revision", BigInteger, nullable=False),
)

# The versions of agents' and policies' definitions. A row never changes, but for the erasure of a user (definitions.py).
definitions = Table(
    "turnwise_definitions",
    metadata,
    Column("app", Name, primary_key=True),
    Column("kind", Name, primary_key=True),
    Column("name", Name, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("status", String(16), nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("author", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index(None, "app", "revision"),
)


# The vector of a text, by the encoder's fingerprint and a hash of the text (`text_keys`). Half-precision numbers.
vectors = Table(
    "turnwise_vectors",
    metadata,
    Column("encoder", Name, primary_key=True),
    Column("text_key", Name, primary_key=True),
    Column("row", LargeBinary, nullable=False),
)

# Fitted matchers, cut into parts, by a hash of phrases, encoder and release. Part 0 is written last.
matchers = Table(
    "turnwise_matchers",
    metadata,
    Column("fingerprint", Name, primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("id", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

# `version` counts the changes of a row, for compare-and-set.
rests = Table(
    "turnwise_rests",
    metadata,
    Column("app", Name, primary_key=True),
    Column("agent", Name, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)

# The experiments of an app, by name; `version` as for rests.
experiments = Table(
    "turnwise_experiments",
    metadata,
    Column("app", Name, primary_key=True),
    Column("name", Name, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)
