import sqlite3
from pathlib import Path

import psycopg
import pytest
from psycopg import errors
from sqlalchemy.exc import DBAPIError, IntegrityError

from turnwise.facts.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable
from turnwise.stores.sql.problems import Duplicate, is_collision, is_lost, problem


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
        found = problem("/data/x.db", error)
        assert type(found) is kind
        assert kind is Duplicate or "/data/x.db" in str(found)
        assert "user's text" not in str(found)


def test_an_error_of_sqlite_without_a_code() -> None:
    assert type(problem("x.db", sqlite3.ProgrammingError("Cannot operate on a closed database."))) is StoreError


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    missing = problem(str(tmp_path / "no" / "x.db"), sqlite_error(sqlite3.SQLITE_CANTOPEN))
    assert type(missing) is StoreError
    assert "does not exist" in str(missing)
    folder = problem(str(tmp_path), sqlite_error(sqlite3.SQLITE_CANTOPEN))
    assert "is a folder" in str(folder)
    busy = problem(str(tmp_path / "x.db"), sqlite_error(sqlite3.SQLITE_CANTOPEN))
    assert type(busy) is StoreUnavailable


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.DiskFull("full"), StoreFull),
        (errors.TooManyConnections("many"), StoreUnavailable),
        (errors.AdminShutdown("bye"), StoreUnavailable),
        (errors.LockNotAvailable("lock"), StoreUnavailable),
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
    found = problem("the database", wrapped(error))
    assert type(found) is kind


def test_later_lines_of_a_message_are_not_shown() -> None:
    """They may quote a row."""
    error = errors.UndefinedTable("first line\nDETAIL: Key (text)=(a user's text)")
    assert str(problem("db", wrapped(error))) == "db refused: first line (42P01)."


def test_other_errors_stay_as_they_are() -> None:
    for error in (ValueError("x"), StoreFull("x")):
        assert problem("db", error) is error


def test_what_no_database_can_hold() -> None:
    for error in (UnicodeEncodeError("utf-8", "\ud83d", 0, 1, "surrogates"), OverflowError("too large")):
        assert type(problem("db", error)) is StoreError


def test_what_may_be_tried_again() -> None:
    assert is_collision(wrapped(errors.SerializationFailure("x")))
    assert is_collision(wrapped(errors.DeadlockDetected("x")))
    assert not is_collision(wrapped(errors.UniqueViolation("x")))
    assert not is_collision(ValueError("x"))
    assert is_lost(wrapped(psycopg.OperationalError("x"), lost=True))
    assert not is_lost(wrapped(psycopg.OperationalError("x")))
