import sqlite3
from pathlib import Path

import psycopg
import pytest
from psycopg import errors
from sqlalchemy.exc import DBAPIError, IntegrityError

from turnwise.facts.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable
from turnwise.stores.sql.errors import Database, Duplicate, is_busy, is_connection_lost, is_transient, store_error


def sqlite_error(code: int, name: str = "SQLITE_X", text: str = "it went wrong") -> sqlite3.Error:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode, error.sqlite_errorname = code, name
    return error


def wrapped(error: BaseException, *, lost: bool = False) -> DBAPIError:
    kind = IntegrityError if isinstance(error, psycopg.IntegrityError) else DBAPIError
    return kind("SELECT secret", {"text": "a user's text"}, error, hide_parameters=True, connection_invalidated=lost)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_FULL, StoreFull),
        (sqlite3.SQLITE_CORRUPT, StoreCorrupt),
        (sqlite3.SQLITE_CORRUPT_INDEX, StoreCorrupt),
        (sqlite3.SQLITE_NOTADB, StoreCorrupt),
        (sqlite3.SQLITE_BUSY, StoreUnavailable),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreUnavailable),
        (sqlite3.SQLITE_LOCKED, StoreUnavailable),
        (sqlite3.SQLITE_IOERR_WRITE, StoreUnavailable),
        (sqlite3.SQLITE_READONLY, StoreError),
        (sqlite3.SQLITE_ERROR, StoreError),
        (sqlite3.SQLITE_CONSTRAINT_UNIQUE, Duplicate),
        (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, Duplicate),
        (sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY, StoreError),
    ],
)
def test_sqlite(code: int, kind: type[Exception]) -> None:
    for error in (sqlite_error(code), wrapped(sqlite_error(code))):
        found = store_error("/data/x.db", error)
        assert type(found) is kind
        assert kind is Duplicate or "/data/x.db" in str(found)
        assert "user's text" not in str(found)


def test_an_error_of_sqlite_without_a_code() -> None:
    assert type(store_error("x.db", sqlite3.ProgrammingError("Cannot operate on a closed database."))) is StoreError


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    missing = store_error(str(tmp_path / "no" / "x.db"), sqlite_error(sqlite3.SQLITE_CANTOPEN))
    assert type(missing) is StoreError
    assert "does not exist" in str(missing)
    folder = store_error(str(tmp_path), sqlite_error(sqlite3.SQLITE_CANTOPEN))
    assert "is a folder" in str(folder)
    busy = store_error(str(tmp_path / "x.db"), sqlite_error(sqlite3.SQLITE_CANTOPEN))
    assert type(busy) is StoreUnavailable


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.DiskFull("full"), StoreFull),
        (errors.TooManyConnections("many"), StoreUnavailable),
        (errors.AdminShutdown("bye"), StoreUnavailable),
        (errors.LockNotAvailable("lock"), StoreUnavailable),
        (errors.QueryCanceled("statement timeout"), StoreUnavailable),
        (errors.IdleInTransactionSessionTimeout("idle"), StoreUnavailable),
        (errors.SerializationFailure("collided"), StoreUnavailable),
        (errors.DeadlockDetected("deadlock"), StoreUnavailable),
        (errors.DataCorrupted("bad page"), StoreCorrupt),
        (errors.InsufficientPrivilege("no"), StoreError),
        (errors.InvalidPassword("no"), StoreError),
        (errors.ReadOnlySqlTransaction("no"), StoreError),
        (errors.UndefinedTable("no table"), StoreError),
        (errors.UniqueViolation("twice"), Duplicate),
        (errors.ForeignKeyViolation("gone"), StoreError),
        (psycopg.OperationalError("connection refused"), StoreUnavailable),
        (psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"), StoreError),
    ],
)
def test_postgresql(error: psycopg.Error, kind: type[Exception]) -> None:
    found = store_error("the database", wrapped(error))
    assert type(found) is kind


def test_later_lines_of_a_message_are_not_shown() -> None:
    """They may quote a row."""
    error = errors.UndefinedTable("first line\nDETAIL: Key (text)=(a user's text)")
    assert str(store_error("db", wrapped(error))) == "db refused: first line (42P01)."


def test_other_errors_stay_as_they_are() -> None:
    for error in (ValueError("x"), StoreFull("x")):
        assert store_error("db", error) is error


def test_what_no_database_can_hold() -> None:
    for error in (UnicodeEncodeError("utf-8", "\ud83d", 0, 1, "surrogates"), OverflowError("too large")):
        assert type(store_error("db", error)) is StoreError


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (wrapped(errors.SerializationFailure("x")), True),
        (wrapped(errors.DeadlockDetected("x")), True),
        (wrapped(errors.LockNotAvailable("x")), True),
        (wrapped(errors.TooManyConnections("x")), True),
        (wrapped(errors.ConnectionFailure("x")), True),
        (wrapped(errors.CannotConnectNow("x")), True),
        (wrapped(errors.QueryCanceled("x")), False),
        (wrapped(errors.UniqueViolation("x")), False),
        (wrapped(errors.DiskFull("x")), False),
        (wrapped(psycopg.OperationalError("server closed the connection unexpectedly"), lost=True), True),
        (wrapped(psycopg.OperationalError("connection failed: Connection refused")), True),
        (wrapped(psycopg.errors.ConnectionTimeout("connection timeout expired")), True),
        (wrapped(psycopg.OperationalError("FATAL:  sorry, too many clients already")), True),
        (wrapped(psycopg.OperationalError("FATAL:  the database system is starting up")), True),
        (wrapped(psycopg.OperationalError('FATAL:  database "x" does not exist')), False),
        (wrapped(psycopg.OperationalError('FATAL:  password authentication failed for user "x"')), False),
        (wrapped(psycopg.OperationalError('FATAL:  no pg_hba.conf entry for host "x"')), False),
        (wrapped(psycopg.DataError("NUL")), False),
        (ValueError("x"), False),
    ],
)
def test_what_may_pass(error: Exception, passes: bool) -> None:
    assert is_transient(error) is passes


def test_a_refusal_is_not_called_unreachable() -> None:
    found = store_error("the database", wrapped(psycopg.OperationalError('FATAL:  role "x" does not exist')))
    assert type(found) is StoreError
    assert "the database refuses connections" in str(found)


def test_a_lost_connection() -> None:
    assert is_connection_lost(wrapped(psycopg.OperationalError("x"), lost=True))
    assert not is_connection_lost(wrapped(psycopg.OperationalError("x")))


def test_busy() -> None:
    assert is_busy(sqlite_error(sqlite3.SQLITE_BUSY_SNAPSHOT))
    assert is_busy(wrapped(sqlite_error(sqlite3.SQLITE_LOCKED)))
    assert not is_busy(sqlite_error(sqlite3.SQLITE_FULL))
    assert not is_busy(wrapped(errors.LockNotAvailable("x")))
    assert not is_busy(None)


def test_why_a_call_is_overdue() -> None:
    place = Database("the place", 15.0)
    idle = place.timed_out(None, begun=False, unknown=False)
    assert str(idle) == "the place was busy with other calls for 15 seconds. Try again."
    hung = place.timed_out(None, begun=True, unknown=False)
    said = "the place took too long: the call was not done after 15 seconds. Check that it runs, and the way to it."
    assert str(hung) == said
    after = place.timed_out(None, begun=False, unknown=False)
    assert "took too long for an earlier call" in str(after), "that is why the others had to wait, too"
    own = place.timed_out(StoreUnavailable("It is locked.", fix="Wait."), begun=True, unknown=False)
    assert str(own) == "It is locked. It stayed so for 15 seconds. Wait."
    unknown = str(place.timed_out(None, begun=True, unknown=True))
    assert unknown.endswith("It is not known whether this call was stored. Look whether it is there before you do it again.")
