"""Copies of a SQLite database, made while it is in use."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy.engine import URL

from turnwise.facts.errors import ConfigError, StoreCorrupt, StoreUnavailable


def database_file(url: URL) -> Path:
    """Returns the file of a SQLite database.

    Raises:
        ConfigError: The database is not a SQLite file.
    """
    if not url.drivername.startswith("sqlite"):
        raise ConfigError("Only a SQLite store can be copied to a file.", fix="Use pg_dump and pg_restore for PostgreSQL.")
    if url.database in {None, "", ":memory:"}:
        raise ConfigError("A store in memory cannot be copied to a file.", fix="Use store: sqlite:///file.db")
    return Path(str(url.database)).absolute()


def back_up(url: URL, target: Path) -> None:
    """Copies the database as it is at one moment. In the write-ahead mode, writers go on meanwhile."""
    source = database_file(url)
    if not source.exists():
        raise StoreUnavailable(f"There is no database {source}.", fix="Check `store` in the configuration.")
    try:
        with closing(sqlite3.connect(source)) as connection, closing(sqlite3.connect(target)) as copy:
            # All pages in one step: the copy is one snapshot, and does not begin again when another process writes.
            connection.backup(copy)
            # One file, without a write-ahead log beside it.
            copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise StoreUnavailable(
            f"The database {source} cannot be copied: {error}.", fix="Check the disk and try again."
        ) from error
    _check(target)


def empty_place(url: URL) -> Path:
    """Returns the database's file, which does not exist. Raises ConfigError if it does."""
    file = database_file(url)
    for path in (file, file.with_name(f"{file.name}-wal")):
        if path.exists():
            raise ConfigError(f"{path} exists; a restore overwrites nothing.", fix="Move it away, or name another store.")
    return file


def restore(url: URL, source: Path) -> None:
    """Moves a checked copy to the database's place, on the same disk."""
    place = empty_place(url)
    _check(source)
    os.replace(source, place)


def _check(file: Path) -> None:
    """Raises StoreCorrupt if SQLite finds damage in the copy."""
    try:
        with closing(sqlite3.connect(file)) as connection:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        found = str(error)
    if found != "ok":
        raise StoreCorrupt(f"The copy of the database is damaged: {found}.", fix="Use another backup.")
