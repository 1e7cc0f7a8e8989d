"""Translates database errors to ours, with cause and fix and without any text of a user."""

import os
import shutil
import sqlite3
from collections.abc import Mapping

from sqlalchemy.exc import DBAPIError, IntegrityError

from turnwise.facts.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable

SPACE = "Free some space; nothing of this call was stored."
LITTLE_SPACE = 1 << 16
CHECK = "Check that it runs, and the way to it."
DAMAGED = "Restore it from a backup, or name another database."


class Duplicate(Exception):
    """A row with that key exists. Internal to the store: it never leaves it."""


class Database:
    """A database's name, its patience and its current trouble."""

    def __init__(self, name: str, patience: float) -> None:
        self.name = name
        self.patience = patience
        """Seconds from a call to its answer, with all queues and attempts."""
        self.trouble: StoreUnavailable | None = None
        """The last known reason why it does not answer; None = none is known."""

    def record_trouble(self, error: Exception) -> None:
        """Records an error as the current trouble. It copies only the text: frames would keep their objects alive."""
        if isinstance(error, StoreError):
            self.trouble = StoreUnavailable(error.problem, fix=error.fix)

    def translate(self, error: Exception) -> Exception:
        """Returns the error to raise instead, with this one as its cause."""
        translated = store_error(self.name, error)
        if translated is not error:
            translated.__cause__ = error
        return translated

    def timed_out(self, cause: Exception | None, *, begun: bool, unknown: bool) -> StoreUnavailable:
        """Returns the error for a call that reached its deadline.

        Args:
            cause: The last error of the call.
            begun: True when the call had started.
            unknown: True when it may have been committed.
        """
        cause, seconds = cause or self.trouble, f"{self.patience:g} seconds"
        if isinstance(cause, StoreError):
            text, fix = f"{cause.problem} It stayed so for {seconds}.", cause.fix
        elif begun:
            text, fix = f"{self.name} took too long: the call was not done after {seconds}.", CHECK
            self.record_trouble(StoreUnavailable(f"{self.name} took too long for an earlier call.", fix=CHECK))
        else:
            text, fix = f"{self.name} was busy with other calls for {seconds}.", "Try again."
        error = _outcome_unknown(text) if unknown else StoreUnavailable(text, fix=fix)
        error.__cause__ = cause
        return error

    def lost_in_commit(self, error: Exception) -> StoreUnavailable:
        """Returns the error for a non-repeatable call whose connection was lost during the commit."""
        unavailable = _outcome_unknown(f"The connection to {self.name} was lost: {_first_line(error)}.")
        unavailable.__cause__ = error
        return unavailable


def _outcome_unknown(text: str) -> StoreUnavailable:
    fix = "Look whether it is there before you do it again."
    return StoreUnavailable(f"{text} It is not known whether this call was stored.", fix=fix)


def store_error(name: str, error: Exception) -> Exception:
    """Returns the error to raise instead of `error`, or `error` itself when it is not a database error."""
    original = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(error, UnicodeEncodeError):
        return StoreError("A name cannot be stored: it holds an unpaired surrogate.", fix="Pass valid Unicode text.")
    if isinstance(error, OverflowError):
        return StoreError("A number is too large to be stored.", fix="Pass numbers below 2 to the power of 63.")
    if isinstance(original, sqlite3.Error):
        return _of_sqlite(name, original)
    if isinstance(error, DBAPIError) and original is not None:
        return _of_postgresql(name, error, original)
    return error


def is_connection_lost(error: Exception) -> bool:
    """Returns whether the connection is gone. Then nothing of an uncommitted transaction was stored."""
    return isinstance(error, DBAPIError) and error.connection_invalidated


def is_transient(error: Exception) -> bool:
    """Returns whether PostgreSQL may accept the same work later. Nothing of it was stored, except by a commit that was lost."""
    if not isinstance(error, DBAPIError) or error.orig is None:
        return False
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return error.connection_invalidated or state in _TRANSIENT_STATES or state[:2] == "08"
    return error.connection_invalidated or (_is_unconnected(error.orig) and not _is_refused(error.orig))


def is_busy(error: BaseException | None) -> bool:
    """Returns whether another connection holds the SQLite lock that was needed."""
    original = error.orig if isinstance(error, DBAPIError) else error
    return isinstance(original, sqlite3.Error) and _primary(original) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


_TRANSIENT_STATES = {
    "25P03",  # idle in transaction for too long
    "40001",  # serialization failure
    "40P01",  # deadlock
    "53300",  # too many connections
    "55P03",  # lock timeout
    "57P01",  # shutting down
    "57P02",  # crashed
    "57P03",  # starting up, or recovering
    "57P05",  # a connection was idle for too long
}


def _primary(error: sqlite3.Error) -> int | None:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _of_sqlite(place: str, error: sqlite3.Error) -> Exception:
    """Returns our error for an error of SQLite."""
    code, name = getattr(error, "sqlite_errorcode", None), getattr(error, "sqlite_errorname", type(error).__name__)
    if code in {sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY}:
        return Duplicate(name)
    match _primary(error):
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
        case sqlite3.SQLITE_IOERR if _is_full(place):
            return StoreFull(f"The disk with {place} is full.", fix=SPACE)
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_NOMEM | sqlite3.SQLITE_PROTOCOL:
            return StoreUnavailable(f"{place} cannot be read or written now ({name}).", fix="Check the disk and its limits.")
    return StoreError(f"{place} refused: {_first_line(error)} ({name}).")


def _is_full(place: str) -> bool:
    # SQLite does not report every lack of space as SQLITE_FULL.
    try:
        return shutil.disk_usage(os.path.dirname(place)).free < LITTLE_SPACE
    except OSError:
        return False


def _unopened(place: str, name: str) -> StoreError:
    """Returns the error for a database file that cannot be opened, with the reason that the file system shows."""
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
    "57014": (StoreUnavailable, "{place} stopped a statement", "Try again, or raise its statement_timeout."),
    "25P03": (StoreUnavailable, "{place} ended a transaction that stood still", "Try again."),
    "55P03": (StoreUnavailable, "{place} is locked by another transaction", "Try again, or end that transaction."),
    "40": (StoreUnavailable, "{place} is too busy: transactions kept colliding", "Try again."),
    "28": (StoreError, "{place} refused the login", "Check user and password."),
    "3D": (StoreError, "{place} does not exist", "Create the database."),
    "42501": (StoreError, "{place} gives no permission", "Grant this user the rights to read, write and create tables."),
    "25006": (StoreError, "{place} is read-only", "Name the primary server."),
}


def _of_postgresql(place: str, error: DBAPIError, original: BaseException) -> Exception:
    """Returns our error for an error of PostgreSQL, by its SQLSTATE."""
    state = getattr(original, "sqlstate", None)
    if isinstance(error, IntegrityError) and state == "23505":
        return Duplicate(state)
    detail = _first_line(original)
    if state is None:
        # libpq gives no code for errors before a connection is established or while it breaks.
        if error.connection_invalidated or _is_unconnected(original):
            return _unreached(place, original, detail)
        return StoreError(f"{place} cannot store this: {detail}.")
    known = _POSTGRESQL.get(state) or _POSTGRESQL.get(state[:2])
    if known is None:
        return StoreError(f"{place} refused: {detail} ({state}).")
    kind, text, fix = known
    return kind(f"{text.format(place=place)}: {detail} ({state}).", fix=fix)


# Server messages that waiting does not help against. In other languages they are only noticed at the deadline.
_REFUSALS = (
    "does not exist",
    "authentication failed",
    "no pg_hba.conf entry",
    "pg_hba.conf rejects",
    "permission denied",
    "not permitted to log in",
    "not currently accepting connections",
    "no password supplied",
    "does not support SSL",
    "certificate",
)


def _is_unconnected(original: BaseException) -> bool:
    # By class name, because the driver may not be installed. Errors with a code are of a subclass with another name.
    return type(original).__name__ in {"OperationalError", "ConnectionTimeout"}


def _is_refused(original: BaseException) -> bool:
    text = str(original)
    return any(refusal in text for refusal in _REFUSALS)


def _unreached(place: str, original: BaseException, detail: str) -> StoreError:
    if _is_refused(original):
        fix = "Check the name of the database, the user and the password, and that this user may log in."
        return StoreError(f"{place} refuses connections: {detail}.", fix=fix)
    return StoreUnavailable(f"{place} cannot be reached: {detail}.", fix="Check that the server runs, and its address.")


def _first_line(error: BaseException) -> str:
    # Later lines of PostgreSQL's messages may quote values.
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
