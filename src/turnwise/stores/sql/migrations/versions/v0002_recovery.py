"""Adds the columns and indexes for recovering abandoned sessions and for stopping an invocation of another process."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

NOW = {
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) AS double precision)",
}
BATCH = 500


def upgrade() -> None:
    """Adds the columns and indexes of recovery. Leases that are held count as renewed now."""
    op.add_column("turnwise_sessions", sa.Column("lease_since", sa.Double))
    op.add_column("turnwise_sessions", sa.Column("stop", sa.Text))
    # A held lease counts as renewed now; its end stays.
    now = NOW[op.get_bind().dialect.name]
    op.execute(sa.text(f"UPDATE turnwise_sessions SET lease_since = {now} WHERE lease_holder IS NOT NULL"))
    _complete_heads()
    _index("due", "app", "lease_holder IS NOT NULL OR queued > 0")
    _index("stops", "lease_holder", "stop IS NOT NULL")


def _index(name: str, column: str, condition: str) -> None:
    where = sa.text(condition)
    op.create_index(f"turnwise_sessions_{name}_ix", "turnwise_sessions", [column], sqlite_where=where, postgresql_where=where)


def _complete_heads() -> None:
    """Sets `since` in open invocations. Without it, a new attempt would rewind the session to its first event."""
    sessions = sa.table("turnwise_sessions", sa.column("id"), sa.column("head"))
    waiting = sa.select(sessions.c.id, sessions.c.head).where(sessions.c.head.contains('"began"')).order_by(sessions.c.id)
    connection, reached = op.get_bind(), 0
    while rows := connection.execute(waiting.where(sessions.c.id > reached).limit(BATCH)).all():
        for row in rows:
            head = json.loads(row.head)
            for invocation in head["invocations"].values():
                # If the invocation was transferred since, the new attempt begins with its first agent.
                invocation.setdefault("since", invocation["began"])
            connection.execute(sa.update(sessions).where(sessions.c.id == row.id).values(head=json.dumps(head)))
        reached = rows[-1].id
