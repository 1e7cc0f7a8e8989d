"""Bringing a database to the tables of this version, in the transaction of whoever connects first."""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, insert, inspect, select, update

from turnwise.facts.errors import SchemaNewer
from turnwise.stores.sql.tables import SCHEMA, VERSION_TABLE, metadata, version

if TYPE_CHECKING:
    from alembic.config import Config

_TOUCH = update(version).values(version_num=version.c.version_num)


def is_current(connection: Connection) -> bool:
    return _found(connection) == SCHEMA


def migrate(connection: Connection, place: str) -> None:
    """Makes the tables, or brings older ones here. Commits nothing.

    The caller's transaction keeps other processes out. SchemaNewer when a newer Turnwise made them.
    """
    found = _found(connection)
    if found == SCHEMA:
        return
    if found is None:
        # What all migrations together would make, without the cost of importing Alembic.
        metadata.create_all(connection, checkfirst=False)
        connection.execute(insert(version), {"version_num": SCHEMA})
    else:
        _upgrade(connection, found, place)


def touch(connection: Connection) -> None:
    """Writes the version's row as it is. Only a write proves that a database takes writes: a read-only server answers reads."""
    connection.execute(_TOUCH)


def _found(connection: Connection) -> str | None:
    """The revision of the tables; None when there are none, empty when there is only the table for it."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(select(version.c.version_num)).scalar() or ""


def _upgrade(connection: Connection, found: str, place: str) -> None:
    # Importing Alembic costs more than a turn: only when there is something to migrate.
    from alembic import command
    from alembic.script import ScriptDirectory

    config = alembic_config(connection)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found and found not in known:
        raise SchemaNewer(
            f"{place} was made by a newer Turnwise: its tables are at revision {found}, this one knows up to {SCHEMA}.",
            fix="Update Turnwise, or name another database.",
        )
    command.upgrade(config, SCHEMA)


def alembic_config(connection: Connection) -> "Config":
    """Alembic's configuration for a connection, whose transaction the migrations join."""
    from alembic.config import Config

    config = Config()
    folder = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
