"""Adds the state of invocations to their decisions, and push subscriptions."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

# The states are only in the logs: they stay unknown until they change. Copies in forks have no message and are skipped.
FILL = """
UPDATE turnwise_decisions SET
    user_id = (SELECT s.user_id FROM turnwise_sessions s WHERE s.id = turnwise_decisions.session),
    changed_at = CASE WHEN id IN (
        SELECT min(d.id) FROM turnwise_decisions d
        JOIN (SELECT DISTINCT session, invocation_id FROM turnwise_messages WHERE state = 'started') m
            ON m.session = d.session AND m.invocation_id = d.invocation_id
        JOIN turnwise_events e ON e.session = d.session AND e.sequence = d.sequence AND NOT e.hidden
        GROUP BY d.session, d.invocation_id
    ) THEN created_at END
"""


def upgrade() -> None:
    """Adds user, state and time of change to decisions, fills user and time, and creates the table of push subscriptions."""
    for column in ("user_id", "state", "changed_at"):
        op.add_column("turnwise_decisions", sa.Column(column, NAME))
    op.execute(sa.text(FILL))
    _index("decisions_stands", ["app", "user_id", "changed_at", "id", "state"], "changed_at IS NOT NULL")
    op.create_table(
        "turnwise_pushes",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("session", ID, nullable=False),
        sa.Column("app", NAME, nullable=False),
        sa.Column("message_id", NAME, nullable=False),
        sa.Column("push_id", NAME, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("told", sa.BigInteger, nullable=False),
        sa.Column("seen", sa.BigInteger, nullable=False),
        sa.Column("holder", NAME),
        sa.Column("since", sa.Double),
        sa.Column("ends", sa.Double),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="turnwise_pushes_pk"),
        sa.ForeignKeyConstraint(["session"], ["turnwise_sessions.id"], name="turnwise_pushes_session_fk", ondelete="CASCADE"),
    )
    columns = ["session", "message_id", "push_id"]
    op.create_index("turnwise_pushes_session_message_id_push_id_ix", "turnwise_pushes", columns, unique=True)
    _index("pushes_open", ["app"], "state = 'open'")
    _index("pushes_held", ["holder"], "holder IS NOT NULL")


def _index(name: str, columns: list[str], condition: str) -> None:
    """Creates a partial index. `name` is the table's name and, after the last underscore, the index's own."""
    table, where = f"turnwise_{name.rpartition('_')[0]}", sa.text(condition)
    op.create_index(f"turnwise_{name}_ix", table, columns, sqlite_where=where, postgresql_where=where)
