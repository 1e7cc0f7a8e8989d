"""Makes the user the distribution key of all tables, and stores rewinds and forks as ranges of a log.

The rows of the old tables are moved afterwards, in short transactions (`turnwise.stores.sql.schema`).
"""

import sqlalchemy as sa
from alembic import op

from turnwise.stores.sql import words

revision = "0006"
down_revision = "0005"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
OLD_TABLES = ("labels", "jobs", "pushes", "decisions", "messages", "events", "sessions", "state")


def upgrade() -> None:
    """Renames the old tables and creates the new ones. The rows are moved later, in steps."""
    for name in OLD_TABLES:
        _rename(name)
    _create_app_state()
    _create_audit()
    _create_decisions()
    _create_events()
    _create_holds()
    _create_jobs()
    _create_label_changes()
    _create_label_claims()
    _create_labels()
    _create_messages()
    _create_processes()
    _create_pushes()
    _create_removals()
    _create_sessions()
    _create_shares()
    _create_snapshots()
    _create_user_state()
    _create_versions()
    words.create_index(op.get_bind())
    _start_move()


def _rename(name: str) -> None:
    """Renames an old table, and frees the names of its indexes. Indexes by session stay, because the move reads by session."""
    table, old = f"turnwise_{name}", f"turnwise_old_{name}"
    connection = op.get_bind()
    for index in sa.inspect(connection).get_indexes(table):
        if not str(index["name"]).startswith(f"{table}_session_"):
            op.drop_index(str(index["name"]), table)
    op.rename_table(table, old)
    if connection.dialect.name == "postgresql":
        op.execute(f"ALTER TABLE {old} RENAME CONSTRAINT {table}_pk TO {old}_pk")


def _start_move() -> None:
    """Creates the table of the move's progress; without old rows, drops the old tables."""
    connection = op.get_bind()
    filled = any(
        connection.execute(sa.text(f"SELECT 1 FROM turnwise_old_{name} LIMIT 1")).first() for name in ("sessions", "state")
    )
    if filled:
        op.create_table("turnwise_old_progress", sa.Column("session", sa.BigInteger, nullable=False))
        op.execute("INSERT INTO turnwise_old_progress VALUES (0)")
        return
    for name in OLD_TABLES:
        op.drop_table(f"turnwise_old_{name}")


def _create_app_state() -> None:
    """Creates the table of state that all users of an app share."""
    op.create_table(
        "turnwise_app_state",
        sa.Column("app", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("app", "key", name="turnwise_app_state_pk"),
    )


def _create_audit() -> None:
    """Creates the table of the audit log."""
    op.create_table(
        "turnwise_audit",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("id", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("app", NAME, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("actor", NAME, nullable=False),
        sa.Column("action", NAME, nullable=False),
        sa.Column("user_id", NAME),
        sa.Column("session_id", NAME),
        sa.Column("details", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "id", name="turnwise_audit_pk"),
    )
    op.create_index("turnwise_audit_app_actor_ix", "turnwise_audit", ["app", "actor"])
    op.create_index("turnwise_audit_app_id_ix", "turnwise_audit", ["app", "id"])


def _create_decisions() -> None:
    """Creates the table of decisions."""
    op.create_table(
        "turnwise_decisions",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("session", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("sequence", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("id", sa.BigInteger, nullable=False),
        sa.Column("app", NAME, nullable=False),
        sa.Column("user_id", NAME, nullable=False),
        sa.Column("invocation_id", NAME, nullable=False),
        sa.Column("agent", NAME, nullable=False),
        sa.Column("method", NAME, nullable=False),
        sa.Column("confidence", sa.Double, nullable=False),
        sa.Column("outcome", NAME, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("tenth", sa.Integer, nullable=False),
        sa.Column("label", NAME),
        sa.Column("state", NAME),
        sa.Column("changed_at", NAME),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("record", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "session", "sequence", name="turnwise_decisions_pk"),
    )
    op.create_index("turnwise_decisions_app_agent_id_ix", "turnwise_decisions", ["app", "agent", "id"])
    op.create_index("turnwise_decisions_app_fingerprint_id_ix", "turnwise_decisions", ["app", "fingerprint", "id"])
    op.create_index("turnwise_decisions_app_id_ix", "turnwise_decisions", ["app", "id"])
    op.create_index("turnwise_decisions_app_method_id_ix", "turnwise_decisions", ["app", "method", "id"])
    op.create_index("turnwise_decisions_app_tenth_id_ix", "turnwise_decisions", ["app", "tenth", "id"])
    op.create_index(
        "turnwise_decisions_changed_ix",
        "turnwise_decisions",
        ["owner", "changed_at", "id", "state"],
        sqlite_where=sa.text("changed_at IS NOT NULL"),
        postgresql_where=sa.text("changed_at IS NOT NULL"),
    )
    op.create_index(
        "turnwise_decisions_labelled_ix",
        "turnwise_decisions",
        ["app", "id", "label", "agent"],
        sqlite_where=sa.text("label IS NOT NULL"),
        postgresql_where=sa.text("label IS NOT NULL"),
    )
    op.create_index(
        "turnwise_decisions_outcome_ix",
        "turnwise_decisions",
        ["app", "outcome", "id"],
        sqlite_where=sa.text("outcome <> 'chosen'"),
        postgresql_where=sa.text("outcome <> 'chosen'"),
    )
    op.create_index("turnwise_decisions_owner_id_ix", "turnwise_decisions", ["owner", "id"])


def _create_events() -> None:
    """Creates the table of events."""
    op.create_table(
        "turnwise_events",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("log", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("sequence", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("event_id", NAME, nullable=False),
        sa.Column("invocation_id", NAME, nullable=False),
        sa.Column("author", NAME, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "log", "sequence", name="turnwise_events_pk"),
    )
    op.create_index("turnwise_events_owner_log_event_id_ix", "turnwise_events", ["owner", "log", "event_id"], unique=True)
    op.create_index(
        "turnwise_events_owner_log_invocation_id_sequence_ix", "turnwise_events", ["owner", "log", "invocation_id", "sequence"]
    )


def _create_holds() -> None:
    """Creates the table of legal holds."""
    op.create_table(
        "turnwise_holds",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("hold_id", NAME, nullable=False),
        sa.Column("app", NAME, nullable=False),
        sa.Column("user_id", NAME, nullable=False),
        sa.Column("author", NAME, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "hold_id", name="turnwise_holds_pk"),
    )
    op.create_index("turnwise_holds_app_user_id_hold_id_ix", "turnwise_holds", ["app", "user_id", "hold_id"])


def _create_jobs() -> None:
    """Creates the table of background jobs."""
    op.create_table(
        "turnwise_jobs",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("session", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("kind", NAME, nullable=False),
        sa.Column("agent", NAME, nullable=False),
        sa.Column("id", sa.BigInteger, nullable=False),
        sa.Column("app", NAME, nullable=False),
        sa.Column("event_id", NAME, nullable=False),
        sa.Column("until_sequence", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("holder", NAME),
        sa.Column("since", sa.Double),
        sa.Column("ends", sa.Double),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "session", "kind", "agent", name="turnwise_jobs_pk"),
    )
    op.create_index("turnwise_jobs_app_id_ix", "turnwise_jobs", ["app", "id"])
    op.create_index(
        "turnwise_jobs_held_ix",
        "turnwise_jobs",
        ["holder"],
        sqlite_where=sa.text("holder IS NOT NULL"),
        postgresql_where=sa.text("holder IS NOT NULL"),
    )


def _create_label_changes() -> None:
    """Creates the table of changes of labels."""
    op.create_table(
        "turnwise_label_changes",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("session", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("sequence", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("id", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("app", NAME, nullable=False),
        sa.Column("user_id", NAME, nullable=False),
        sa.Column("source", NAME, nullable=False),
        sa.Column("author", NAME, nullable=False),
        sa.Column("actor", NAME, nullable=False),
        sa.Column("changed_at", sa.Text, nullable=False),
        sa.Column("before", sa.Text),
        sa.Column("after", sa.Text),
        sa.PrimaryKeyConstraint("owner", "session", "sequence", "id", name="turnwise_label_changes_pk"),
    )
    op.create_index("turnwise_label_changes_app_actor_ix", "turnwise_label_changes", ["app", "actor"])
    op.create_index("turnwise_label_changes_app_author_ix", "turnwise_label_changes", ["app", "author"])


def _create_label_claims() -> None:
    """Creates the table of reviewers' claims."""
    op.create_table(
        "turnwise_label_claims",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("session", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("sequence", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("app", NAME, nullable=False),
        sa.Column("user_id", NAME, nullable=False),
        sa.Column("reviewer", NAME, nullable=False),
        sa.Column("ends", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("owner", "session", "sequence", name="turnwise_label_claims_pk"),
    )
    op.create_index("turnwise_label_claims_app_reviewer_ix", "turnwise_label_claims", ["app", "reviewer"])


def _create_labels() -> None:
    """Creates the table of labels."""
    op.create_table(
        "turnwise_labels",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("session", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("sequence", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("source", NAME, nullable=False),
        sa.Column("author", NAME, nullable=False),
        sa.Column("id", sa.BigInteger, nullable=False),
        sa.Column("label", NAME),
        sa.Column("unsure", sa.Boolean, nullable=False),
        sa.Column("weight", sa.Double, nullable=False),
        sa.Column("labelled_at", sa.Text, nullable=False),
        sa.Column("picked", NAME),
        sa.Column("probability", sa.Double),
        sa.Column("app", NAME, nullable=False),
        sa.Column("user_id", NAME, nullable=False),
        sa.Column("session_id", NAME, nullable=False),
        sa.Column("invocation_id", NAME, nullable=False),
        sa.Column("agent", NAME, nullable=False),
        sa.Column("method", NAME, nullable=False),
        sa.Column("confidence", sa.Double, nullable=False),
        sa.Column("outcome", NAME, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("decided_at", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "session", "sequence", "source", "author", name="turnwise_labels_pk"),
    )
    op.create_index("turnwise_labels_app_author_ix", "turnwise_labels", ["app", "author"])
    op.create_index("turnwise_labels_app_id_ix", "turnwise_labels", ["app", "id"])


def _create_messages() -> None:
    """Creates the table of messages, the inbox."""
    op.create_table(
        "turnwise_messages",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("session", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("message_id", NAME, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("invocation_id", NAME),
        sa.Column("sequence", sa.BigInteger),
        sa.Column("accepted_at", sa.Text, nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "session", "message_id", name="turnwise_messages_pk"),
    )
    op.create_index(
        "turnwise_messages_queued_ix",
        "turnwise_messages",
        ["owner", "session", "position"],
        sqlite_where=sa.text("state = 'queued'"),
        postgresql_where=sa.text("state = 'queued'"),
    )


def _create_processes() -> None:
    """Creates the table of processes with their heartbeats."""
    op.create_table(
        "turnwise_processes",
        sa.Column("name", NAME, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("beat", sa.Double, nullable=False),
        sa.Column("started_at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="turnwise_processes_pk"),
    )


def _create_pushes() -> None:
    """Creates the table of push subscriptions."""
    op.create_table(
        "turnwise_pushes",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("session", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("message_id", NAME, nullable=False),
        sa.Column("push_id", NAME, nullable=False),
        sa.Column("id", sa.BigInteger, nullable=False),
        sa.Column("app", NAME, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("told", sa.BigInteger, nullable=False),
        sa.Column("seen", sa.BigInteger, nullable=False),
        sa.Column("holder", NAME),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "session", "message_id", "push_id", name="turnwise_pushes_pk"),
    )
    op.create_index(
        "turnwise_pushes_held_ix",
        "turnwise_pushes",
        ["holder"],
        sqlite_where=sa.text("holder IS NOT NULL"),
        postgresql_where=sa.text("holder IS NOT NULL"),
    )
    op.create_index(
        "turnwise_pushes_open_ix",
        "turnwise_pushes",
        ["app", "id"],
        sqlite_where=sa.text("state = 'open'"),
        postgresql_where=sa.text("state = 'open'"),
    )


def _create_removals() -> None:
    """Creates the table of deletions that are to be finished."""
    op.create_table(
        "turnwise_removals",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("session", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("app", NAME, nullable=False),
        sa.Column("user_id", NAME, nullable=False),
        sa.Column("keeps_labels", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("owner", "session", name="turnwise_removals_pk"),
    )


def _create_sessions() -> None:
    """Creates the table of sessions."""
    op.create_table(
        "turnwise_sessions",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("app", NAME, nullable=False),
        sa.Column("user_id", NAME, nullable=False),
        sa.Column("session_id", NAME, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("last_sequence", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("queued", sa.Integer, nullable=False),
        sa.Column("accepted", sa.BigInteger, nullable=False),
        sa.Column("lease_holder", sa.Text),
        sa.Column("stop", sa.Text),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("updated_at", sa.Text, nullable=False),
        sa.Column("head", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("initial_state", sa.Text, nullable=False),
        sa.Column("spans", sa.Text),
        sa.PrimaryKeyConstraint("owner", "number", name="turnwise_sessions_pk"),
    )
    op.create_index("turnwise_sessions_app_user_id_session_id_ix", "turnwise_sessions", ["app", "user_id", "session_id"])
    op.create_index(
        "turnwise_sessions_due_ix",
        "turnwise_sessions",
        ["app"],
        sqlite_where=sa.text("lease_holder IS NOT NULL OR queued > 0"),
        postgresql_where=sa.text("lease_holder IS NOT NULL OR queued > 0"),
    )
    op.create_index(
        "turnwise_sessions_owner_app_user_id_session_id_ix",
        "turnwise_sessions",
        ["owner", "app", "user_id", "session_id"],
        unique=True,
    )
    op.create_index(
        "turnwise_sessions_stops_ix",
        "turnwise_sessions",
        ["lease_holder"],
        sqlite_where=sa.text("stop IS NOT NULL"),
        postgresql_where=sa.text("stop IS NOT NULL"),
    )


def _create_shares() -> None:
    """Creates the table of logs that forks share."""
    op.create_table(
        "turnwise_shares",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("log", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("session", sa.BigInteger, nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("owner", "log", "session", name="turnwise_shares_pk"),
    )
    op.create_index("turnwise_shares_owner_session_ix", "turnwise_shares", ["owner", "session"])


def _create_snapshots() -> None:
    """Creates the table of snapshots of folded sessions."""
    op.create_table(
        "turnwise_snapshots",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("log", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("sequence", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("updated_at", sa.Text, nullable=False),
        sa.Column("head", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "log", "sequence", name="turnwise_snapshots_pk"),
    )


def _create_user_state() -> None:
    """Creates the table of users' state."""
    op.create_table(
        "turnwise_user_state",
        sa.Column("owner", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("app", NAME, nullable=False),
        sa.Column("user_id", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "app", "user_id", "key", name="turnwise_user_state_pk"),
    )


def _create_versions() -> None:
    """Creates the table of versions of policies and agent trees."""
    op.create_table(
        "turnwise_versions",
        sa.Column("app", NAME, nullable=False),
        sa.Column("kind", NAME, nullable=False),
        sa.Column("version", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("app", "kind", "version", name="turnwise_versions_pk"),
    )
