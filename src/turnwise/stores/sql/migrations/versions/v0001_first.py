"""Creates the first tables: sessions, events, messages, decisions, labels, shared state."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Creates the first tables."""
    _sessions()
    _events()
    _messages()
    _decisions()
    _labels()
    _state()


def _session_column(table: str) -> tuple[sa.Column[int], sa.ForeignKeyConstraint]:
    key = sa.ForeignKeyConstraint(["session"], ["turnwise_sessions.id"], name=f"{table}_session_fk", ondelete="CASCADE")
    return sa.Column("session", ID, nullable=False), key


def _sessions() -> None:
    """Creates the table of sessions."""
    op.create_table(
        "turnwise_sessions",
        sa.Column("id", ID, nullable=False, autoincrement=True),
        sa.Column("app", NAME, nullable=False),
        sa.Column("user_id", NAME, nullable=False),
        sa.Column("session_id", NAME, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("last_sequence", sa.BigInteger, nullable=False),
        sa.Column("queued", sa.Integer, nullable=False),
        sa.Column("lease_until", sa.Double),
        sa.Column("lease_holder", sa.Text),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("updated_at", sa.Text, nullable=False),
        sa.Column("head", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("initial_state", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="turnwise_sessions_pk"),
    )
    op.create_index(
        "turnwise_sessions_app_user_id_session_id_ix", "turnwise_sessions", ["app", "user_id", "session_id"], unique=True
    )


def _events() -> None:
    """Creates the table of events."""
    session, key = _session_column("turnwise_events")
    op.create_table(
        "turnwise_events",
        session,
        sa.Column("sequence", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("event_id", NAME, nullable=False),
        sa.Column("invocation_id", NAME, nullable=False),
        sa.Column("author", NAME, nullable=False),
        sa.Column("hidden", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("rewind_from", sa.BigInteger),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("session", "sequence", name="turnwise_events_pk"),
        key,
    )
    op.create_index("turnwise_events_session_event_id_ix", "turnwise_events", ["session", "event_id"], unique=True)
    op.create_index(
        "turnwise_events_session_invocation_id_sequence_ix", "turnwise_events", ["session", "invocation_id", "sequence"]
    )


def _messages() -> None:
    """Creates the table of messages, the inbox."""
    session, key = _session_column("turnwise_messages")
    op.create_table(
        "turnwise_messages",
        sa.Column("id", ID, nullable=False, autoincrement=True),
        session,
        sa.Column("message_id", NAME, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("invocation_id", NAME),
        sa.Column("accepted_at", sa.Text, nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="turnwise_messages_pk"),
        key,
    )
    op.create_index("turnwise_messages_session_message_id_ix", "turnwise_messages", ["session", "message_id"], unique=True)
    queued = sa.text("state = 'queued'")
    op.create_index(
        "turnwise_messages_queued_ix", "turnwise_messages", ["session", "id"], sqlite_where=queued, postgresql_where=queued
    )


def _decisions() -> None:
    """Creates the table of decisions."""
    session, key = _session_column("turnwise_decisions")
    op.create_table(
        "turnwise_decisions",
        sa.Column("id", ID, nullable=False, autoincrement=True),
        session,
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("app", NAME, nullable=False),
        sa.Column("invocation_id", NAME, nullable=False),
        sa.Column("agent", NAME, nullable=False),
        sa.Column("method", NAME, nullable=False),
        sa.Column("confidence", sa.Double, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("selection", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="turnwise_decisions_pk"),
        key,
    )
    op.create_index("turnwise_decisions_session_sequence_ix", "turnwise_decisions", ["session", "sequence"], unique=True)
    op.create_index("turnwise_decisions_app_id_ix", "turnwise_decisions", ["app", "id"])
    op.create_index("turnwise_decisions_app_agent_id_ix", "turnwise_decisions", ["app", "agent", "id"])


def _labels() -> None:
    """Creates the table of labels."""
    session, key = _session_column("turnwise_labels")
    op.create_table(
        "turnwise_labels",
        session,
        sa.Column("sequence", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("label", NAME, nullable=False),
        sa.PrimaryKeyConstraint("session", "sequence", name="turnwise_labels_pk"),
        key,
    )


def _state() -> None:
    """Creates the table of shared state."""
    op.create_table(
        "turnwise_state",
        sa.Column("app", NAME, nullable=False),
        sa.Column("owner", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("app", "owner", "key", name="turnwise_state_pk"),
    )
