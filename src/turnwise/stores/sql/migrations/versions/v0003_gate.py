"""Adds API keys, and the shared counters and slots of callers' limits."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Creates the tables of API keys, counters and slots."""
    op.create_table(
        "turnwise_keys",
        sa.Column("app", NAME, nullable=False),
        sa.Column("key_id", NAME, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Text),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("app", "key_id", name="turnwise_keys_pk"),
    )
    op.create_table(
        "turnwise_counters",
        sa.Column("name", NAME, nullable=False),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("ends", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", name="turnwise_counters_pk"),
    )
    op.create_index("turnwise_counters_ends_ix", "turnwise_counters", ["ends"])
    op.create_table(
        "turnwise_places",
        sa.Column("name", NAME, nullable=False),
        sa.Column("holder", NAME, nullable=False),
        sa.Column("ends", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", "holder", name="turnwise_places_pk"),
    )
    op.create_index("turnwise_places_ends_ix", "turnwise_places", ["ends"])
