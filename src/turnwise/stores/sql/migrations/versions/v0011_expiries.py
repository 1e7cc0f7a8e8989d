"""Adds the time at which a session's first wait expires."""

import json
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

PAGE = 500
WAITING = sa.text(
    "SELECT owner, number, head FROM turnwise_sessions WHERE (owner, number) > (:owner, :number) "
    "AND head LIKE '%\"expires_at\"%' ORDER BY owner, number LIMIT :page"
)
FILL = sa.text("UPDATE turnwise_sessions SET expires_at = :at WHERE owner = :owner AND number = :number")


def upgrade() -> None:
    """Adds the time of the next expiry to sessions, and fills it."""
    op.add_column("turnwise_sessions", sa.Column("expires_at", sa.Text))
    condition = sa.text("expires_at IS NOT NULL")
    op.create_index(
        "turnwise_sessions_expiry_ix",
        "turnwise_sessions",
        ["app", "expires_at"],
        sqlite_where=condition,
        postgresql_where=condition,
    )
    _fill(op.get_bind())


def _fill(connection: sa.Connection) -> None:
    """Fills the time of the next expiry of all sessions that wait, a page at a time."""
    after = {"owner": -(2**63), "number": -(2**63)}
    while rows := connection.execute(WAITING, after | {"page": PAGE}).all():
        found = [{"owner": row.owner, "number": row.number, "at": _expiry(json.loads(row.head))} for row in rows]
        if known := [row for row in found if row["at"] is not None]:
            connection.execute(FILL, known)
        after = {"owner": rows[-1].owner, "number": rows[-1].number}


def _expiry(head: dict[str, Any]) -> str | None:
    """Returns when the first of the waiting invocations expires. Each one does with its last wait."""
    ends = []
    for open_ in head["invocations"].values():
        times = [wait.get("expires_at") for _, wait in open_.get("waits", ())]
        if open_["state"] == "waiting" and times and all(times):
            ends.append(max(datetime.fromisoformat(time) for time in times))
    return min(ends).astimezone(UTC).isoformat(timespec="microseconds") if ends else None
