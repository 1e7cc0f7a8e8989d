"""The tables of what processes share: vectors of phrases, fitted matchers, rests, experiments. The same for all users."""

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, Table, Text

from turnwise.stores.sql import definition_tables, record_tables

assert definition_tables.metadata is record_tables.metadata
metadata = record_tables.metadata
"""The tables of the whole store, with those of this file and of the two others."""

_Name = Text().with_variant(Text(collation="C"), "postgresql")

# The vector of a text, by the encoder's fingerprint and a hash of the text (`text_keys`). Half-precision numbers.
vectors = Table(
    "turnwise_vectors",
    metadata,
    Column("encoder", _Name, primary_key=True),
    Column("text_key", _Name, primary_key=True),
    Column("row", LargeBinary, nullable=False),
)

# Fitted matchers, cut into parts, by a hash of phrases, encoder and release. Part 0 is written last.
matchers = Table(
    "turnwise_matchers",
    metadata,
    Column("fingerprint", _Name, primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("id", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

# `version` counts the changes of a row, for compare-and-set.
rests = Table(
    "turnwise_rests",
    metadata,
    Column("app", _Name, primary_key=True),
    Column("agent", _Name, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)

# The experiments of an app, by name; `version` as for rests.
experiments = Table(
    "turnwise_experiments",
    metadata,
    Column("app", _Name, primary_key=True),
    Column("name", _Name, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)
