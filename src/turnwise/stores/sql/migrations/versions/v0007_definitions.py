"""Adds the versioned definitions of agents and policies, with their revisions."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Creates the tables of definitions, of cached vectors and matchers, and of agents' rests."""
    op.create_table(
        "turnwise_definition_revisions",
        sa.Column("app", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("app", name="turnwise_definition_revisions_pk"),
    )
    op.create_table(
        "turnwise_definitions",
        sa.Column("app", NAME, nullable=False),
        sa.Column("kind", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("app", "kind", "name", "version", name="turnwise_definitions_pk"),
    )
    op.create_index("turnwise_definitions_app_revision_ix", "turnwise_definitions", ["app", "revision"])
    _create_index_tables()


def _create_index_tables() -> None:
    """Creates the tables of cached vectors and fitted matchers, and of agents' rests."""
    op.create_table(
        "turnwise_vectors",
        sa.Column("encoder", NAME, nullable=False),
        sa.Column("text_key", NAME, nullable=False),
        sa.Column("row", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("encoder", "text_key", name="turnwise_vectors_pk"),
    )
    op.create_table(
        "turnwise_matchers",
        sa.Column("fingerprint", NAME, nullable=False),
        sa.Column("part", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("id", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", "part", name="turnwise_matchers_pk"),
    )
    op.create_table(
        "turnwise_rests",
        sa.Column("app", NAME, nullable=False),
        sa.Column("agent", NAME, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("app", "agent", name="turnwise_rests_pk"),
    )
