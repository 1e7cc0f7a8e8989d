"""Creates the tables or migrates them to the current schema, in the caller's transaction."""

import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json
from sqlalchemy import Connection, column, create_engine, func, insert, inspect, select, table, text, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from turnwise.facts.errors import ConfigError, MissingExtra, SchemaNewer, StoreUnavailable
from turnwise.ports.maintenance import SchemaStatus
from turnwise.stores.sql import words
from turnwise.stores.sql.app_tables import metadata
from turnwise.stores.sql.ids import decision_id
from turnwise.stores.sql.rows import stored_size, tenth_of
from turnwise.stores.sql.spans import Spans, spans_text, whole, without
from turnwise.stores.sql.tables import SCHEMA, VERSION_TABLE, owner_of, version

if TYPE_CHECKING:
    from alembic.config import Config


_TOUCH = update(version).values(version_num=version.c.version_num)


def is_current(connection: Connection) -> bool:
    return find_revision(connection) == SCHEMA and not has_old_tables(connection)


def migrate(connection: Connection, database: str) -> None:
    """Creates the tables or migrates older ones. Does not commit; the caller's transaction keeps other processes out.

    Raises:
        SchemaNewer: A newer Turnwise migrated the tables.
    """
    revision = find_revision(connection)
    if revision == SCHEMA:
        return
    if revision is None:
        # Same result as all migrations, without importing Alembic.
        metadata.create_all(connection, checkfirst=False)
        words.create_index(connection)
        connection.execute(insert(version), {"version_num": SCHEMA})
    else:
        _upgrade(connection, revision, database)


def touch(connection: Connection) -> None:
    """Rewrites the version row. Only a write proves that the database accepts writes: a read-only server still answers
    reads.
    """
    connection.execute(_TOUCH)


def find_revision(connection: Connection) -> str | None:
    """Returns the revision of the tables; None without tables, empty with an empty version table."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(select(version.c.version_num)).scalar() or ""


def _upgrade(connection: Connection, revision: str, database: str) -> None:
    """Runs the migrations from that revision on. Raises SchemaNewer for an unknown revision."""
    # Imported only for a migration: importing Alembic takes longer than a turn.
    from alembic import command
    from alembic.script import ScriptDirectory

    config = alembic_config(connection)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision and revision not in known:
        raise SchemaNewer(
            f"{database} was made by a newer Turnwise: its tables are at revision {revision}, this one knows up to {SCHEMA}.",
            fix="Update Turnwise, or name another database.",
        )
    command.upgrade(config, SCHEMA)


def alembic_config(connection: Connection) -> "Config":
    """Returns Alembic's configuration for a connection. The migrations join its transaction."""
    from alembic.config import Config

    config = Config()
    folder = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


CONNECT_SECONDS = 5


def read_status(url: str) -> SchemaStatus:
    """Reads the revision of the database. Creates no file and no table.

    Raises:
        ConfigError: The URL names no database that keeps anything.
        StoreUnavailable: The database cannot be read.
    """
    parsed = make_url(url)
    if parsed.drivername.startswith("sqlite"):
        if parsed.database in {None, "", ":memory:"}:
            raise ConfigError("The sessions are in memory; there is nothing to migrate.", fix="Name a file or a server.")
        path = os.path.abspath(str(parsed.database))
        if not os.path.exists(path):
            return SchemaStatus(None, SCHEMA, False)
        return _read_database(URL.create("sqlite", database=f"file:{path}", query={"mode": "ro", "uri": "true"}), path)
    shown = parsed.set(drivername="postgresql", query={}).render_as_string(hide_password=True)
    parsed = parsed.set(drivername="postgresql+psycopg").update_query_dict({"connect_timeout": str(CONNECT_SECONDS)})
    return _read_database(parsed, shown)


def _read_database(url: URL, shown: str) -> SchemaStatus:
    """Reads the database's revision. Raises MissingExtra, StoreUnavailable."""
    try:
        engine = create_engine(url, poolclass=NullPool, hide_parameters=True)
    except ModuleNotFoundError as error:
        raise MissingExtra("PostgreSQL", "postgres") from error
    try:
        with engine.connect() as connection:
            found = find_revision(connection)
            return SchemaStatus(found, SCHEMA, found == SCHEMA and has_old_tables(connection))
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", error)).splitlines()[0]
        raise StoreUnavailable(f"{shown} cannot be read: {reason}.", fix="Check the store's URL.") from error


STEP_ROWS = 500
"""The number of rows after which a transaction ends."""
OLD = "turnwise_old_"
OLD_TABLES = ("labels", "jobs", "pushes", "decisions", "messages", "events", "sessions", "state")
PROGRESS = f"{OLD}progress"

_NEXT_SESSION = text(f"SELECT s.* FROM {OLD}sessions s WHERE s.id > (SELECT session FROM {PROGRESS}) ORDER BY s.id LIMIT 1")
_PASSED = text(f"UPDATE {PROGRESS} SET session = :id")
_STATE = text(f"SELECT app, owner, key, value FROM {OLD}state LIMIT {STEP_ROWS}")
_STATE_MOVED = text(f"DELETE FROM {OLD}state WHERE app = :app AND owner = :owner AND key = :key")
_APP_STATE = text("INSERT INTO turnwise_app_state (app, key, value) VALUES (:app, :key, :value)")
_USER_STATE = text(
    "INSERT INTO turnwise_user_state (owner, app, user_id, key, value) VALUES (:number, :app, :user, :key, :value)"
)
_EVENTS = text(
    "INSERT INTO turnwise_events (owner, log, sequence, event_id, invocation_id, author, body) "
    f"SELECT :owner, session, sequence, event_id, invocation_id, author, body FROM {OLD}events "
    "WHERE session = :id AND sequence > (SELECT coalesce(max(sequence), 0) FROM turnwise_events "
    f"WHERE owner = :owner AND log = :id) ORDER BY sequence LIMIT {STEP_ROWS}"
)
_MESSAGES = text(
    "INSERT INTO turnwise_messages "
    "(owner, session, message_id, position, state, invocation_id, sequence, accepted_at, problem, body) "
    f"SELECT :owner, session, message_id, id, state, invocation_id, NULL, accepted_at, problem, body FROM {OLD}messages "
    "WHERE session = :id AND id > (SELECT coalesce(max(position), 0) FROM turnwise_messages "
    f"WHERE owner = :owner AND session = :id) ORDER BY id LIMIT {STEP_ROWS}"
)
_DECISIONS = text(
    f"SELECT * FROM {OLD}decisions WHERE session = :id AND sequence > (SELECT coalesce(max(sequence), 0) "
    f"FROM turnwise_decisions WHERE owner = :owner AND session = :id) ORDER BY sequence LIMIT {STEP_ROWS}"
)
_DECISION = text(
    "INSERT INTO turnwise_decisions (owner, session, sequence, id, app, user_id, invocation_id, agent, method, confidence, "
    "outcome, fingerprint, tenth, state, changed_at, created_at, text, record) VALUES (:owner, :session, :sequence, :id, :app, "
    ":user_id, :invocation_id, :agent, :method, :confidence, :outcome, :fingerprint, :tenth, :state, :changed_at, "
    ":created_at, :text, :record)"
)
# An old label was an operator's, at an unknown time.
_LABELS = text(
    "INSERT INTO turnwise_labels (owner, session, sequence, source, author, id, label, unsure, weight, labelled_at, app, "
    "user_id, session_id, invocation_id, agent, method, confidence, outcome, fingerprint, decided_at, note) "
    "SELECT d.owner, d.session, d.sequence, 'operator', '', d.id, l.label, false, 1.0, d.created_at, d.app, d.user_id, "
    ":session_id, d.invocation_id, d.agent, d.method, d.confidence, d.outcome, d.fingerprint, d.created_at, '' "
    f"FROM {OLD}labels l JOIN turnwise_decisions d ON d.sequence = l.sequence "
    "WHERE l.session = :id AND d.owner = :owner AND d.session = :id"
)
_LABELLED = text(
    "UPDATE turnwise_decisions SET label = (SELECT l.label FROM turnwise_labels l WHERE l.owner = :owner AND l.session = :id "
    "AND l.sequence = turnwise_decisions.sequence) WHERE owner = :owner AND session = :id AND sequence IN "
    "(SELECT sequence FROM turnwise_labels WHERE owner = :owner AND session = :id)"
)
_JOBS = text(
    "INSERT INTO turnwise_jobs (owner, session, kind, agent, id, app, event_id, until_sequence, attempts, body) "
    f"SELECT :owner, session, kind, agent, id, app, event_id, until_sequence, attempts, body FROM {OLD}jobs "
    "WHERE session = :id"
)
_PUSHES = text(
    "INSERT INTO turnwise_pushes (owner, session, message_id, push_id, id, app, state, told, seen, created_at, body) "
    f"SELECT :owner, session, message_id, push_id, id, app, state, told, seen, created_at, body FROM {OLD}pushes "
    "WHERE session = :id"
)
_HIDDEN = text(f"SELECT sequence FROM {OLD}events WHERE session = :id AND hidden ORDER BY sequence")
_SIZE = select(func.coalesce(func.sum(stored_size(column("body"))), 0)).select_from(table("turnwise_events"))
_SIZE = _SIZE.where(text("owner = :owner AND log = :id"))
_ACCEPTED = text("SELECT coalesce(max(position), 0) FROM turnwise_messages WHERE owner = :owner AND session = :id")
_SESSION = text(
    "INSERT INTO turnwise_sessions (owner, number, app, user_id, session_id, epoch, revision, last_sequence, bytes, queued, "
    "accepted, lease_holder, stop, created_at, updated_at, head, state, initial_state, spans) VALUES (:owner, :id, :app, "
    ":user_id, :session_id, :epoch, :revision, :last_sequence, :bytes, :queued, :accepted, :lease_holder, :stop, "
    ":created_at, :updated_at, :head, :state, :initial_state, :spans)"
)


def has_old_tables(connection: Connection) -> bool:
    """Returns whether old tables still hold rows."""
    return inspect(connection).has_table(PROGRESS)


def move_some(connection: Connection) -> bool:
    """Moves about `STEP_ROWS` rows, and drops the old tables after the last one. Returns whether there are more."""
    if not has_old_tables(connection):
        return False
    moved = _move_state(connection)
    while moved < STEP_ROWS:
        session = connection.execute(_NEXT_SESSION).first()
        if session is None:
            drop_old_tables(connection)
            return False
        moved += _move_session(connection, dict(session._mapping), STEP_ROWS - moved)
    return True


def drop_old_tables(connection: Connection) -> None:
    """Drops the old tables."""
    for name in (*OLD_TABLES, "progress"):
        connection.execute(text(f"DROP TABLE IF EXISTS {OLD}{name}"))


def _move_state(connection: Connection) -> int:
    """Moves a batch of shared state to the tables of apps and users. Returns the number of rows."""
    rows = [row._asdict() for row in connection.execute(_STATE)]
    for row in rows:
        user = row["owner"].removeprefix("user:") if row["owner"] else None
        if user is None:
            connection.execute(_APP_STATE, row)
        else:
            connection.execute(_USER_STATE, row | {"user": user, "number": owner_of(row["app"], user)})
        connection.execute(_STATE_MOVED, row)
    return len(rows)


def _move_session(connection: Connection, session: dict[str, Any], most: int) -> int:
    """Moves rows of one session until `most` is passed or all have moved. Returns their number."""
    at = {"id": session["id"], "owner": owner_of(session["app"], session["user_id"])}
    moved = 0
    steps: tuple[Callable[[Connection, dict[str, Any]], int], ...] = (_move_events, _move_messages, _move_decisions)
    for step in steps:
        while (rows := step(connection, at | {"user_id": session["user_id"]})) > 0:
            moved += rows
            if moved >= most:
                return moved
    for statement in (_LABELS, _LABELLED, _JOBS, _PUSHES):
        moved += connection.execute(statement, session | at).rowcount
    row = session | at | {"spans": _moved_spans(connection, session["id"]), "bytes": connection.execute(_SIZE, at).scalar_one()}
    connection.execute(_SESSION, row | {"accepted": connection.execute(_ACCEPTED, at).scalar_one()})
    connection.execute(_PASSED, at)
    return moved + 1


def _move_events(connection: Connection, at: dict[str, Any]) -> int:
    return connection.execute(_EVENTS, at).rowcount


def _move_messages(connection: Connection, at: dict[str, Any]) -> int:
    return connection.execute(_MESSAGES, at).rowcount


def _move_decisions(connection: Connection, at: dict[str, Any]) -> int:
    rows = [_moved_decision(row._asdict(), at) for row in connection.execute(_DECISIONS, at)]
    if rows:
        connection.execute(_DECISION, rows)
    return len(rows)


def _moved_decision(row: dict[str, Any], at: dict[str, Any]) -> dict[str, Any]:
    """Returns an old row of a decision as a row of today's table."""
    selection = from_json(row["selection"])
    record = {key: value for key, value in selection.items() if key not in {"agent", "method", "confidence", "fingerprint"}}
    outcome = record.pop("outcome", "chosen")
    moved = row | {"owner": at["owner"], "user_id": at["user_id"], "outcome": outcome}
    moved["tenth"] = tenth_of(row["confidence"])
    moved["id"] = decision_id(datetime.fromisoformat(row["created_at"]), row["id"])
    return moved | {"record": json.dumps(record, ensure_ascii=False, separators=(",", ":"))}


def _moved_spans(connection: Connection, session: int) -> str | None:
    spans: Spans = whole(session)
    for sequence in connection.execute(_HIDDEN, {"id": session}).scalars():
        spans = without(spans, sequence, sequence)
    return spans_text(spans, session)
