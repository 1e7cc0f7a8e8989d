"""Adds the agents that a process answers with to its heartbeat."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("turnwise_processes", sa.Column("serves", sa.Text))
