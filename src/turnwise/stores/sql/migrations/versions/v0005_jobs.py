"""Adds background jobs, which a turn requests and a worker runs later."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Creates the table of background jobs."""
    op.create_table(
        "turnwise_jobs",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("session", ID, nullable=False),
        sa.Column("app", NAME, nullable=False),
        sa.Column("kind", NAME, nullable=False),
        sa.Column("agent", NAME, nullable=False),
        sa.Column("event_id", NAME, nullable=False),
        sa.Column("until_sequence", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("holder", NAME),
        sa.Column("since", sa.Double),
        sa.Column("ends", sa.Double),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="turnwise_jobs_pk"),
        sa.ForeignKeyConstraint(["session"], ["turnwise_sessions.id"], name="turnwise_jobs_session_fk", ondelete="CASCADE"),
    )
    op.create_index("turnwise_jobs_session_kind_agent_ix", "turnwise_jobs", ["session", "kind", "agent"], unique=True)
    op.create_index("turnwise_jobs_app_id_ix", "turnwise_jobs", ["app", "id"])
    held = sa.text("holder IS NOT NULL")
    op.create_index("turnwise_jobs_held_ix", "turnwise_jobs", ["holder"], sqlite_where=held, postgresql_where=held)
