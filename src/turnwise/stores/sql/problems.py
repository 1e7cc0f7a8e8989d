"""What a database complains about, as our errors: the thing, the cause and the fix, never a user's text."""

import os
import sqlite3
from collections.abc import Mapping

from sqlalchemy.exc import DBAPIError, IntegrityError

from turnwise.facts.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable

SPACE = "Free some space; nothing of this call was stored."
DAMAGED = "Restore it from a backup, or name another database."


class Duplicate(Exception):
    """A row with that key is there already. The store's own business: it never leaves it."""


def problem(place: str, error: Exception) -> Exception:
    """The error to raise instead of `error`; the same one when it is none of a database's."""
    original = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(error, UnicodeEncodeError):
        return StoreError("A name cannot be stored: it holds an unpaired surrogate.", fix="Pass valid Unicode text.")
    if isinstance(error, OverflowError):
        return StoreError("A number is too large to be stored.", fix="Pass numbers below 2 to the power of 63.")
    if isinstance(original, sqlite3.Error):
        return _of_sqlite(place, original)
    if isinstance(error, DBAPIError) and original is not None:
        return _of_postgresql(place, error, original)
    return error


def is_lost(error: Exception) -> bool:
    """Whether the connection is gone, so that nothing of an uncommitted transaction was stored."""
    return isinstance(error, DBAPIError) and error.connection_invalidated


def is_collision(error: Exception) -> bool:
    """Whether two transactions got in each other's way, so that the same work may succeed now."""
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) in {"40001", "40P01"}


def _of_sqlite(place: str, error: sqlite3.Error) -> Exception:
    code, name = getattr(error, "sqlite_errorcode", None), getattr(error, "sqlite_errorname", type(error).__name__)
    if code in {sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY}:
        return Duplicate(name)
    match code & 0xFF if code is not None else None:
        case sqlite3.SQLITE_FULL:
            return StoreFull(f"The disk with {place} is full.", fix=SPACE)
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreCorrupt(f"{place} is damaged, or is no SQLite database ({name}).", fix=DAMAGED)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreUnavailable(f"{place} is locked by another program ({name}).", fix="Try again, or end that program.")
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return _unopened(place, name)
        case sqlite3.SQLITE_READONLY:
            return StoreError(f"{place} is read-only ({name}).", fix="Change its permissions, or name another.")
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_NOMEM | sqlite3.SQLITE_PROTOCOL:
            return StoreUnavailable(f"{place} cannot be read or written now ({name}).", fix="Check the disk and its limits.")
    return StoreError(f"{place} refused: {_first_line(error)} ({name}).")


def _unopened(place: str, name: str) -> StoreError:
    folder = os.path.dirname(place)
    if not os.path.isdir(folder):
        return StoreError(f"The folder {folder} of the database {place} does not exist.", fix="Create it, or name another.")
    if os.path.isdir(place):
        return StoreError(f"The database {place} is a folder.", fix="Name a file.")
    target = place if os.path.exists(place) else folder
    if not os.access(target, os.W_OK):
        return StoreError(f"{place} cannot be written: no permission ({name}).", fix="Change its permissions, or name another.")
    return StoreUnavailable(f"{place} cannot be opened now ({name}).", fix="Check the limit of open files, and the disk.")


_POSTGRESQL: Mapping[str, tuple[type[StoreError], str, str]] = {
    "53": (StoreUnavailable, "{place} is out of resources", "Raise its limits, or use fewer connections."),
    "53100": (StoreFull, "The disk of {place} is full", SPACE),
    "XX": (StoreCorrupt, "{place} is damaged", DAMAGED),
    "08": (StoreUnavailable, "{place} cannot be reached", "Check that the server runs and may be reached from here."),
    "57": (StoreUnavailable, "{place} is stopping or starting", "Try again."),
    "55P03": (StoreUnavailable, "{place} is locked by another transaction", "Try again, or end that transaction."),
    "40": (StoreUnavailable, "{place} is too busy: transactions kept colliding", "Try again."),
    "28": (StoreError, "{place} refused the login", "Check user and password."),
    "3D": (StoreError, "{place} does not exist", "Create the database."),
    "42501": (StoreError, "{place} gives no permission", "Grant this user the rights to read, write and create tables."),
    "25006": (StoreError, "{place} is read-only", "Name the primary server."),
}


def _of_postgresql(place: str, error: DBAPIError, original: BaseException) -> Exception:
    state = getattr(original, "sqlstate", None)
    if isinstance(error, IntegrityError) and state == "23505":
        return Duplicate(state)
    detail = _first_line(original)
    if state is None:
        # libpq gives no code for what happens before a connection stands, or while it falls.
        if type(original).__name__ == "OperationalError" or error.connection_invalidated:
            fix = "Check that the server runs, that the database exists, and that this user may log in."
            return StoreUnavailable(f"{place} cannot be reached: {detail}.", fix=fix)
        return StoreError(f"{place} cannot store this: {detail}.")
    known = _POSTGRESQL.get(state) or _POSTGRESQL.get(state[:2])
    if known is None:
        return StoreError(f"{place} refused: {detail} ({state}).")
    kind, text, fix = known
    return kind(f"{text.format(place=place)}: {detail} ({state}).", fix=fix)


def _first_line(error: BaseException) -> str:
    # Later lines of PostgreSQL's messages may quote values.
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
