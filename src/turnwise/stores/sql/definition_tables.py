"""The tables of definitions, small enough for a sharded database to keep them everywhere."""

from sqlalchemy import BigInteger, Column, Index, String, Table, Text

from turnwise.stores.sql import record_tables
from turnwise.stores.sql.tables import Name

metadata = record_tables.metadata
"""The tables of the whole store, with those of this file."""

# The app's revision of its definitions: each change raises it by one, and its row lock orders the writers of an app.
definition_revisions = Table(
    "turnwise_definition_revisions",
    metadata,
    Column("app", Name, primary_key=True),
    Column("revision", BigInteger, nullable=False),
)

# The versions of agents' and policies' definitions. A row never changes, but for the erasure of a user (learned_examples.py).
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
