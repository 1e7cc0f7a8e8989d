"""Adds the memory of users: entries, their words and vectors, and where their texts are recorded."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Creates the tables of the memory."""
    _memories()
    _memory_links()
    _memory_recalls()
    _memory_terms()
    _memory_users()
    _memory_vectors()


def _memories() -> None:
    """Creates the table of entries."""
    op.create_table(
        "turnwise_memories",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("entry_id", NAME, nullable=False),
        sa.Column("log", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("scope", sa.BigInteger),
        sa.Column("hidden", sa.Integer, nullable=False),
        sa.Column("expires", sa.Double),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("span", sa.String(16), nullable=False),
        sa.Column("said_by", sa.String(16), nullable=False),
        sa.Column("agent", NAME, nullable=False),
        sa.Column("session_id", NAME, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("words", sa.Integer, nullable=False),
        sa.Column("type", NAME),
        sa.Column("normal", NAME),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "number", name="turnwise_memories_pk"),
    )
    op.create_index(
        "turnwise_memories_expires_ix",
        "turnwise_memories",
        ["owner", "expires"],
        sqlite_where=sa.text("expires IS NOT NULL"),
        postgresql_where=sa.text("expires IS NOT NULL"),
    )
    op.create_index(
        "turnwise_memories_normal_ix",
        "turnwise_memories",
        ["owner", "normal"],
        sqlite_where=sa.text("normal IS NOT NULL"),
        postgresql_where=sa.text("normal IS NOT NULL"),
    )
    op.create_index("turnwise_memories_owner_entry_id_ix", "turnwise_memories", ["owner", "entry_id"], unique=True)
    op.create_index("turnwise_memories_owner_log_sequence_ix", "turnwise_memories", ["owner", "log", "sequence"])


def _memory_links() -> None:
    """Creates the table of which entry replaces which."""
    op.create_table(
        "turnwise_memory_links",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("older", NAME, nullable=False),
        sa.Column("newer", sa.BigInteger, nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("owner", "older", "newer", name="turnwise_memory_links_pk"),
    )
    op.create_index("turnwise_memory_links_owner_newer_ix", "turnwise_memory_links", ["owner", "newer"])


def _memory_recalls() -> None:
    """Creates the table of events that hold the texts of entries."""
    op.create_table(
        "turnwise_memory_recalls",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("entry_id", NAME, nullable=False),
        sa.Column("log", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("sequence", sa.BigInteger, nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("owner", "entry_id", "log", "sequence", name="turnwise_memory_recalls_pk"),
    )
    op.create_index("turnwise_memory_recalls_owner_log_sequence_ix", "turnwise_memory_recalls", ["owner", "log", "sequence"])


def _memory_terms() -> None:
    """Creates the table of the word index."""
    op.create_table(
        "turnwise_memory_terms",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("term", NAME, nullable=False),
        sa.Column("block", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "term", "block", name="turnwise_memory_terms_pk"),
    )


def _memory_users() -> None:
    """Creates the table of each user's counts."""
    op.create_table(
        "turnwise_memory_users",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("app", NAME, nullable=False),
        sa.Column("user_id", NAME, nullable=False),
        sa.Column("next", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("seen", sa.Double, nullable=False),
        sa.Column("entries", sa.BigInteger, nullable=False),
        sa.Column("words", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", name="turnwise_memory_users_pk"),
    )


def _memory_vectors() -> None:
    """Creates the table of vectors."""
    op.create_table(
        "turnwise_memory_vectors",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("encoder", NAME, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("owner", "encoder", "first", name="turnwise_memory_vectors_pk"),
    )
