"""The tables, the same on SQLite and PostgreSQL.

A new database is created from this file, an older one is migrated by `migrations/`; a test compares both. A change here
needs a new revision there and a new `SCHEMA`. All names begin with `turnwise_`, so that other programs may share the database.
"""

from hashlib import blake2b
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Index,
    Integer,
    MetaData,
    ScalarSelect,
    String,
    Table,
    Text,
    and_,
    bindparam,
    exists,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from turnwise.facts.errors import StoreError
from turnwise.facts.sessions import SessionKey

SCHEMA = "0012"
VERSION_TABLE = "turnwise_version"

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pk",
        "fk": "%(table_name)s_%(column_0_name)s_fk",
        "uq": "%(table_name)s_%(column_0_N_name)s_uq",
        "ix": "%(table_name)s_%(column_0_N_name)s_ix",
    }
)

# Sorted by code point in every database, so that cursors and lists agree with Python's order.
Name = Text().with_variant(Text(collation="C"), "postgresql")

_MAY_BE_DUE = "lease_holder IS NOT NULL OR queued > 0"
_STOPS = "stop IS NOT NULL"
_EXPIRES = "expires_at IS NOT NULL"
_HAS_STATE = "changed_at IS NOT NULL"
_NOT_CHOSEN = "outcome <> 'chosen'"
_HAS_LABEL = "label IS NOT NULL"
_IS_TRIAL = "experiment IS NOT NULL"
_HAS_SHADOW = "shadow IS NOT NULL"
_IS_OPEN = "state = 'open'"
_IS_HELD = "holder IS NOT NULL"


def owner_column() -> Column[int]:
    """Returns the distribution key, as a part of the primary key."""
    return Column("owner", BigInteger, nullable=False, primary_key=True, autoincrement=False)


def session_column(name: str = "session") -> Column[int]:
    """Returns the number of a session, as a part of the primary key."""
    return Column(name, BigInteger, nullable=False, primary_key=True, autoincrement=False)


version = Table(VERSION_TABLE, metadata, Column("version_num", String(32), nullable=False, primary_key=True))

# `owner` is the distribution key: a hash of app and user (`owner_of`). All rows of a user have it, as the first column of
# their primary key, so that a sharded database keeps a user's rows together. `number` identifies a session within its owner.
# Long texts come last, because a list reads only the front of a row and SQLite stores long texts on separate pages.
sessions = Table(
    "turnwise_sessions",
    metadata,
    owner_column(),
    session_column("number"),
    Column("app", Name, nullable=False),
    Column("user_id", Name, nullable=False),
    Column("session_id", Name, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("last_sequence", BigInteger, nullable=False),
    # The size of the session's own events in bytes.
    Column("bytes", BigInteger, nullable=False),
    # Messages in the inbox, and messages ever accepted.
    Column("queued", Integer, nullable=False),
    Column("accepted", BigInteger, nullable=False),
    Column("lease_holder", Text),
    Column("stop", Text),
    Column("created_at", Text, nullable=False),
    Column("updated_at", Text, nullable=False),
    Column("head", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("initial_state", Text, nullable=False),
    # The visible parts of the log (`spans`); NULL for the session's whole own log.
    Column("spans", Text),
    # When the first of the session's waits expires; NULL when none does.
    Column("expires_at", Text),
    Index(None, "owner", "app", "user_id", "session_id", unique=True),
    Index(None, "app", "user_id", "session_id"),
    Index("turnwise_sessions_due_ix", "app", sqlite_where=text(_MAY_BE_DUE), postgresql_where=text(_MAY_BE_DUE)),
    Index("turnwise_sessions_stops_ix", "lease_holder", sqlite_where=text(_STOPS), postgresql_where=text(_STOPS)),
    Index("turnwise_sessions_expiry_ix", "app", "expires_at", sqlite_where=text(_EXPIRES), postgresql_where=text(_EXPIRES)),
)

# One row per lease holder, renewed by its process; `beat` is the database's clock. A holder without a row is dead: whoever sees
# it silent for `seconds` deletes its row. `serves` is its app and the agents that it answers with. Few rows, the same for all
# users: a sharded database keeps them everywhere.
processes = Table(
    "turnwise_processes",
    metadata,
    Column("name", Name, primary_key=True),
    Column("seconds", Double, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("beat", Double, nullable=False),
    Column("started_at", Text, nullable=False),
    Column("serves", Text),
)

# `log` is the number of the session that wrote the event. Forks of that session read the same rows. The body holds neither
# the columns nor the verdicts of a selection, which are in `decisions`.
events = Table(
    "turnwise_events",
    metadata,
    owner_column(),
    session_column("log"),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("event_id", Name, nullable=False),
    Column("invocation_id", Name, nullable=False),
    Column("author", Name, nullable=False),
    Column("body", Text, nullable=False),
    Index(None, "owner", "log", "event_id", unique=True),
    Index(None, "owner", "log", "invocation_id", "sequence"),
)

# The fold of a log up to an event, written now and then, so that a rewind or a fork need not fold the log from its beginning.
snapshots = Table(
    "turnwise_snapshots",
    metadata,
    owner_column(),
    session_column("log"),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("updated_at", Text, nullable=False),
    Column("head", Text, nullable=False),
    Column("state", Text, nullable=False),
)

# The logs of other sessions that a fork reads. Events are deleted when no session names them.
shares = Table(
    "turnwise_shares",
    metadata,
    owner_column(),
    session_column("log"),
    session_column(),
    Index(None, "owner", "session"),
)

# Deleted sessions whose rows are still to be deleted, in short steps. Session 0 stands for the erasure of the user. The row of
# a session that exists says that the states of decisions that a rewind hides are still to be cleared.
removals = Table(
    "turnwise_removals",
    metadata,
    owner_column(),
    session_column(),
    Column("app", Name, nullable=False),
    Column("user_id", Name, nullable=False),
    # Retention deletes a session without its labels.
    Column("keeps_labels", Boolean, nullable=False),
)

# `position` counts a session's messages in the order of acceptance. `sequence` is the number of the event that holds the
# content of a started message; its body is then stored without the content.
messages = Table(
    "turnwise_messages",
    metadata,
    owner_column(),
    session_column(),
    Column("message_id", Name, primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("invocation_id", Name),
    Column("sequence", BigInteger),
    Column("accepted_at", Text, nullable=False),
    Column("problem", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index(
        "turnwise_messages_queued_ix",
        "owner",
        "session",
        "position",
        sqlite_where=text("state = 'queued'"),
        postgresql_where=text("state = 'queued'"),
    ),
)

# `id` increases with the time of the decision (`new_decision_id`). `record` is the selection without the columns. `state` and
# `changed_at` are set for a decision that began an invocation: its status, and since when. `tenth` is the confidence in whole
# tenths, and `label` repeats the label that counts, '' for no agent. Both are for the search, whose pages each index returns
# newest first. The words of `text` have an index of the database's kind (`words`). `experiment` and `arm` repeat the record's;
# `shadow` is the selection of the shadow policy, which the log does not know.
decisions = Table(
    "turnwise_decisions",
    metadata,
    owner_column(),
    session_column(),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("id", BigInteger, nullable=False),
    Column("app", Name, nullable=False),
    Column("user_id", Name, nullable=False),
    Column("invocation_id", Name, nullable=False),
    Column("agent", Name, nullable=False),
    Column("method", Name, nullable=False),
    Column("confidence", Double, nullable=False),
    Column("outcome", Name, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("tenth", Integer, nullable=False),
    Column("label", Name),
    Column("state", Name),
    Column("changed_at", Name),
    Column("created_at", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("record", Text, nullable=False),
    Column("experiment", Name),
    Column("arm", Name),
    Column("shadow", Text),
    Index(None, "app", "id"),
    Index(None, "owner", "id"),
    Index(None, "app", "agent", "id"),
    Index(None, "app", "method", "id"),
    Index(None, "app", "tenth", "id"),
    Index(None, "app", "fingerprint", "id"),
    Index(
        "turnwise_decisions_outcome_ix",
        "app",
        "outcome",
        "id",
        sqlite_where=text(_NOT_CHOSEN),
        postgresql_where=text(_NOT_CHOSEN),
    ),
    Index(
        "turnwise_decisions_labelled_ix",
        "app",
        "id",
        "label",
        "agent",
        sqlite_where=text(_HAS_LABEL),
        postgresql_where=text(_HAS_LABEL),
    ),
    Index(
        "turnwise_decisions_experiment_ix",
        "app",
        "experiment",
        "id",
        sqlite_where=text(_IS_TRIAL),
        postgresql_where=text(_IS_TRIAL),
    ),
    Index(
        "turnwise_decisions_shadow_ix",
        "app",
        "id",
        sqlite_where=text(_HAS_SHADOW),
        postgresql_where=text(_HAS_SHADOW),
    ),
    Index(
        "turnwise_decisions_changed_ix",
        "owner",
        "changed_at",
        "id",
        "state",
        sqlite_where=text(_HAS_STATE),
        postgresql_where=text(_HAS_STATE),
    ),
)

# The policies and agent trees that decisions name by fingerprint or version. Each is written once, and the same for all
# users: a sharded database keeps it everywhere.
versions = Table(
    "turnwise_versions",
    metadata,
    Column("app", Name, primary_key=True),
    Column("kind", Name, primary_key=True),
    Column("version", Name, primary_key=True),
    Column("name", Name, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("body", Text, nullable=False),
)

user_state = Table(
    "turnwise_user_state",
    metadata,
    owner_column(),
    Column("app", Name, primary_key=True),
    Column("user_id", Name, primary_key=True),
    Column("key", Name, primary_key=True),
    Column("value", Text, nullable=False),
)

# The same for all users: a sharded database keeps it everywhere.
app_state = Table(
    "turnwise_app_state",
    metadata,
    Column("app", Name, primary_key=True),
    Column("key", Name, primary_key=True),
    Column("value", Text, nullable=False),
)

keys = Table(
    "turnwise_keys",
    metadata,
    Column("app", Name, primary_key=True),
    Column("key_id", Name, primary_key=True),
    Column("created_at", Text, nullable=False),
    Column("expires_at", Text),
    Column("body", Text, nullable=False),
)

# Times of counters and places (slots) are the database's clock, in seconds.
counters = Table(
    "turnwise_counters",
    metadata,
    Column("name", Name, primary_key=True),
    Column("total", BigInteger, nullable=False),
    Column("ends", Double, nullable=False),
    Index(None, "ends"),
)

places = Table(
    "turnwise_places",
    metadata,
    Column("name", Name, primary_key=True),
    Column("holder", Name, primary_key=True),
    Column("ends", Double, nullable=False),
    Index(None, "ends"),
)

# Push subscriptions to invocations, by the message that began it. `seen` is the last event at the last check, `told` the last
# event that was delivered.
pushes = Table(
    "turnwise_pushes",
    metadata,
    owner_column(),
    session_column(),
    Column("message_id", Name, primary_key=True),
    Column("push_id", Name, primary_key=True),
    Column("id", BigInteger, nullable=False),
    Column("app", Name, nullable=False),
    Column("state", String(16), nullable=False),
    Column("told", BigInteger, nullable=False),
    Column("seen", BigInteger, nullable=False),
    Column("holder", Name),
    Column("created_at", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index("turnwise_pushes_open_ix", "app", "id", sqlite_where=text(_IS_OPEN), postgresql_where=text(_IS_OPEN)),
    Index("turnwise_pushes_held_ix", "holder", sqlite_where=text(_IS_HELD), postgresql_where=text(_IS_HELD)),
)

# Open background jobs; a finished one is deleted. A living `holder` has a job. Without a holder it rests from `since` to
# `ends`, by the database's clock, in seconds.
jobs = Table(
    "turnwise_jobs",
    metadata,
    owner_column(),
    session_column(),
    Column("kind", Name, primary_key=True),
    Column("agent", Name, primary_key=True),
    Column("id", BigInteger, nullable=False),
    Column("app", Name, nullable=False),
    Column("event_id", Name, nullable=False),
    Column("until_sequence", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("holder", Name),
    Column("since", Double),
    Column("ends", Double),
    Column("body", Text, nullable=False),
    Index(None, "app", "id"),
    Index("turnwise_jobs_held_ix", "holder", sqlite_where=text(_IS_HELD), postgresql_where=text(_IS_HELD)),
)


def owner_of(app: str, user: str) -> int:
    """Returns the distribution key of a user's rows: 64 bits of a hash of both names, as a signed integer."""
    names = f"{len(app)}:{app}{user}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(names, digest_size=8).digest(), "big", signed=True)


class clock(FunctionElement[float]):
    """The database's time in seconds. All writers share this clock."""

    type = Double()
    inherit_cache = True


@compiles(clock, "sqlite")
def _sqlite_clock(_element: clock, _compiler: Any, **_options: Any) -> str:
    # unixepoch('subsec') needs SQLite 3.42.
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(clock, "postgresql")
def _postgresql_clock(_element: clock, _compiler: Any, **_options: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"


def is_session() -> ColumnElement[bool]:
    """Returns the condition that matches one session; its parameters come from `session_params`."""
    return and_(
        sessions.c.owner == bindparam("at_owner"),
        sessions.c.app == bindparam("at_app"),
        sessions.c.user_id == bindparam("at_user"),
        sessions.c.session_id == bindparam("at_id"),
    )


def session_params(key: SessionKey) -> dict[str, Any]:
    """Returns the parameters of `is_session`. StoreError for a name with NUL, which no database stores."""
    if "\0" in key.app or "\0" in key.user or "\0" in key.id:
        raise StoreError(f"A session cannot be named {key!r}: a name holds the character NUL.", fix="Leave it out.")
    return {"at_owner": owner_of(key.app, key.user), "at_app": key.app, "at_user": key.user, "at_id": key.id}


def column_params(table: Table, *without: str) -> dict[str, BindParameter[Any]]:
    """Returns a parameter for each column, under the column's name."""
    return {column.name: bindparam(column.name) for column in table.c if column.name not in without}


def insert_for(dialect: str, table: Table) -> "sqlite.Insert | postgresql.Insert":
    """Returns an INSERT of the dialect that supports ON CONFLICT. It does not fetch generated keys."""
    make = postgresql.insert if dialect == "postgresql" else sqlite.insert
    return make(table).inline()


_s = sessions.c

LEASE_RELEASED: dict[str, Any] = {"lease_holder": None}
"""Column values of a session without a holder."""


def live_holder() -> ScalarSelect[str]:
    """Returns the holder of a session's lease as a subquery; NULL without a holder, or when the holder is dead."""
    return select(processes.c.name).where(processes.c.name == _s.lease_holder).scalar_subquery()


def is_leased() -> ColumnElement[bool]:
    """Returns the condition that a living holder has the session's lease; never NULL."""
    return exists().where(processes.c.name == _s.lease_holder)
