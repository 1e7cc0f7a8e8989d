"""Adds packed blocks of a memory's entries, from which a search begins fast, and the bytes that a user's memory takes."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Creates the table of packed entries, and fills the bytes that each user's memory takes."""
    op.create_table(
        "turnwise_memory_blocks",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("block", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("owner", "block", name="turnwise_memory_blocks_pk"),
    )
    op.add_column("turnwise_memory_users", sa.Column("bytes", sa.BigInteger, nullable=False, server_default=sa.text("0")))
    op.create_index("turnwise_memory_users_app_user_id_ix", "turnwise_memory_users", ["app", "user_id"])
    size = "octet_length(text)" if op.get_bind().dialect.name == "postgresql" else "length(CAST(text AS BLOB))"
    op.execute(
        f"UPDATE turnwise_memory_users SET bytes = (SELECT coalesce(sum({size}), 0) FROM turnwise_memories"
        " WHERE turnwise_memories.owner = turnwise_memory_users.owner)"
    )
