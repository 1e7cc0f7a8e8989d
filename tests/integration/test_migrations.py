"""Making and migrating the tables: in place, by several processes at once, beside other programs' tables."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, text

from turnwise.facts.errors import SchemaNewer, StoreError
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql import SqlSessionStore
from turnwise.stores.sql.schema import alembic_config
from turnwise.stores.sql.tables import SCHEMA, VERSION_TABLE, metadata
from turnwise.testing.postgres import new_postgres_database

KEY = SessionKey("app", "user", "session")
NewUrl = Callable[[], str]


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> NewUrl:
    """Gives URLs of databases that do not exist yet, or are empty."""
    if request.param == "postgresql":
        return new_postgres_database
    count = iter(range(10))
    return lambda: f"sqlite:///{tmp_path}/{next(count)}.db"


def on(url: str, work: Callable[[Connection], Any]) -> Any:
    """Does something on a plain connection and commits."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.begin() as connection:
            return work(connection)
    finally:
        engine.dispose()


def using(url: str, work: Callable[[SqlSessionStore], Coroutine[Any, Any, Any]]) -> Any:
    async def run() -> Any:
        store = SqlSessionStore(url)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


def make(url: str) -> None:
    using(url, lambda store: store.create(KEY))


def migrate(url: str) -> None:
    """Runs every migration from nothing."""
    on(url, lambda connection: command.upgrade(alembic_config(connection), "head"))


def empty_version_table(url: str) -> None:
    """What a database is like whose first migration has yet to run."""
    on(url, lambda connection: connection.execute(text(f"CREATE TABLE {VERSION_TABLE} ({_version_column(connection)})")))


def _version_column(connection: Connection) -> str:
    return f"version_num VARCHAR(32) NOT NULL, CONSTRAINT {VERSION_TABLE}_pk PRIMARY KEY (version_num)"


def _plain(index: Any) -> str:
    options = {name: str(value) for name, value in index.get("dialect_options", {}).items()}
    return repr({**index, "dialect_options": options})


def shape(connection: Connection) -> dict[str, Any]:
    """All there is to know of the tables, in plain values."""
    found = inspect(connection)
    return {
        table: {
            "columns": [{**column, "type": repr(column["type"])} for column in found.get_columns(table)],
            "key": found.get_pk_constraint(table),
            "foreign": found.get_foreign_keys(table),
            "indexes": sorted(_plain(index) for index in found.get_indexes(table)),
            "unique": found.get_unique_constraints(table),
        }
        for table in sorted(found.get_table_names())
    }


def test_a_new_database_is_what_the_migrations_make(new_url: NewUrl) -> None:
    made, migrated = new_url(), new_url()
    make(made)
    migrate(migrated)
    shapes = [on(url, shape) for url in (made, migrated)]
    keys = [each.pop(VERSION_TABLE) for each in shapes]
    assert [key["columns"] for key in keys] == [keys[0]["columns"]] * 2
    assert shapes[0] == shapes[1]
    assert len(shapes[0]) == len(metadata.tables) - 1


def test_the_migrations_make_what_the_tables_say(new_url: NewUrl) -> None:
    url = new_url()
    migrate(url)

    def differences(connection: Connection) -> list[Any]:
        options = {"compare_type": True, "compare_server_default": True, "version_table": VERSION_TABLE}
        found = compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
        return [difference for difference in found if difference[1].name != VERSION_TABLE]

    assert on(url, differences) == []


def test_the_newest_migration_is_the_schema(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    heads = on(url, lambda connection: ScriptDirectory.from_config(alembic_config(connection)).get_heads())
    assert heads == [SCHEMA]
    migrate(url)
    assert on(url, lambda connection: connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all()) == [
        SCHEMA
    ]


def test_a_migrated_database_works(new_url: NewUrl) -> None:
    url = new_url()
    migrate(url)
    make(url)
    assert using(url, lambda store: store.open(KEY)).key == KEY


def test_an_older_database_is_migrated_in_place(new_url: NewUrl) -> None:
    url, reference = new_url(), new_url()
    empty_version_table(url)
    make(url)
    migrate(reference)
    assert {**on(url, shape), VERSION_TABLE: None} == {**on(reference, shape), VERSION_TABLE: None}


_START = """
import asyncio, sys
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql import SqlSessionStore

async def main(url, number):
    store = SqlSessionStore(url)
    sys.stdin.readline()
    await store.create(SessionKey("app", "user", number))
    await store.close()
    print("alembic" in sys.modules)

asyncio.run(main(*sys.argv[1:]))
"""


def start(url: str, number: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-W", "error", "-c", _START, url, number]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def race(url: str) -> list[str]:
    """Starts four processes on one database, lets them go together, and gives what they printed."""
    processes = [start(url, str(number)) for number in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    results = [process.communicate(timeout=60) for process in processes]
    assert [(process.returncode, errors) for process, (_, errors) in zip(processes, results, strict=True)] == [(0, "")] * 4
    return [printed.strip() for printed, _ in results]


def test_processes_that_start_at_once_make_the_tables_once(new_url: NewUrl) -> None:
    url = new_url()
    assert race(url) == ["False"] * 4, "a new database needs no Alembic, whose import costs more than a turn"
    assert len(using(url, lambda store: store.list("app")).items) == 4
    assert on(url, lambda connection: connection.execute(text(f"SELECT count(*) FROM {VERSION_TABLE}")).scalar()) == 1


def test_processes_that_start_at_once_migrate_once(new_url: NewUrl) -> None:
    url = new_url()
    empty_version_table(url)
    assert "True" in race(url)
    assert len(using(url, lambda store: store.list("app")).items) == 4


def test_a_newer_database_is_left_alone(new_url: NewUrl) -> None:
    url = new_url()
    make(url)
    on(url, lambda connection: connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")))
    before = on(url, shape)

    async def refused(store: SqlSessionStore) -> None:
        for call in (store.open, store.create, store.delete):
            with pytest.raises(SchemaNewer, match=r"revision 9999, .* knows up to 0001\. Update Turnwise"):
                await call(KEY)

    using(url, refused)
    assert on(url, shape) == before
    on(url, lambda connection: connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{SCHEMA}'")))
    assert using(url, lambda store: store.open(KEY)).key == KEY


def test_other_programs_tables_are_left_alone(new_url: NewUrl) -> None:
    url = new_url()

    def others(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE sessions (id INTEGER)"))
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('theirs')"))

    on(url, others)
    make(url)
    assert on(url, lambda connection: connection.execute(text("SELECT version_num FROM alembic_version")).scalar()) == "theirs"
    tables = on(url, lambda connection: inspect(connection).get_table_names())
    assert sorted(table for table in tables if not table.startswith("turnwise_")) == ["alembic_version", "sessions"]


def test_a_migration_that_fails_makes_nothing(new_url: NewUrl) -> None:
    url = new_url()
    on(url, lambda connection: connection.execute(text("CREATE TABLE turnwise_labels (x INTEGER)")))

    async def refused(store: SqlSessionStore) -> None:
        with pytest.raises(StoreError, match="turnwise_labels"):
            await store.create(KEY)
        assert not on(url, lambda connection: inspect(connection).has_table("turnwise_sessions"))
        on(url, lambda connection: connection.execute(text("DROP TABLE turnwise_labels")))
        await store.create(KEY)

    using(url, refused)


def test_a_current_database_is_opened_without_alembic(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    make(url)
    printed, errors = start(url, "other").communicate("\n", timeout=60)
    assert (printed.strip(), errors) == ("False", "")


def test_the_file_is_in_write_ahead_mode(tmp_path: Path) -> None:
    make(f"sqlite:///{tmp_path}/x.db")
    connection = sqlite3.connect(tmp_path / "x.db")
    try:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    finally:
        connection.close()
