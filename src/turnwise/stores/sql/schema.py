"""Creates the tables or migrates them to the current schema, in the caller's transaction."""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, insert, inspect, select, update

from turnwise.facts.errors import SchemaNewer
from turnwise.stores.sql import old_tables, words
from turnwise.stores.sql.index_tables import metadata
from turnwise.stores.sql.tables import SCHEMA, VERSION_TABLE, version

if TYPE_CHECKING:
    from alembic.config import Config

_TOUCH = update(version).values(version_num=version.c.version_num)


def is_current(connection: Connection) -> bool:
    return find_revision(connection) == SCHEMA and not old_tables.is_pending(connection)


def move_some(connection: Connection) -> bool:
    """Continues the move of rows from old tables after `migrate`. Returns whether there are more; commit in between."""
    return old_tables.move_some(connection)


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
