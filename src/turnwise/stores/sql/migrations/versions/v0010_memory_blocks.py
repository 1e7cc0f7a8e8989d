"""Adds packed blocks of a memory's entries, from which a search begins fast."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "turnwise_memory_blocks",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("block", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("owner", "block", name="turnwise_memory_blocks_pk"),
    )
