"""Making and migrating the tables: in place, by several processes at once, beside other programs' tables."""

import json
import sqlite3
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from migration_play import NewUrl, migrate, shape, using
from sqlalchemy import Connection, inspect, text
from store_play import on

from turnwise.facts.content import text_content
from turnwise.facts.errors import SchemaNewer, StoreError
from turnwise.facts.events import Await, Event
from turnwise.facts.messages import Message
from turnwise.facts.sessions import Session, SessionKey, fold
from turnwise.ports.stores import Lease
from turnwise.stores.sql import SqlSessionStore, words
from turnwise.stores.sql.app_tables import metadata
from turnwise.stores.sql.rows import time_text
from turnwise.stores.sql.schema import alembic_config
from turnwise.stores.sql.tables import SCHEMA, VERSION_TABLE
from turnwise.testing.session_store_cases.making import NOW, asked, check_fold, ended, opened, rewinds, said

KEY = SessionKey("app", "user", "session")


def make(url: str) -> None:
    using(url, lambda store: store.create(KEY))


def empty_version_table(url: str) -> None:
    """What a database is like whose first migration has yet to run."""
    on(url, lambda connection: connection.execute(text(f"CREATE TABLE {VERSION_TABLE} ({_version_column(connection)})")))


def _version_column(connection: Connection) -> str:
    return f"version_num VARCHAR(32) NOT NULL, CONSTRAINT {VERSION_TABLE}_pk PRIMARY KEY (version_num)"


def test_a_new_database_is_what_the_migrations_make(new_url: NewUrl) -> None:
    made, migrated = new_url(), new_url()
    make(made)
    migrate(migrated)
    shapes = [on(url, shape) for url in (made, migrated)]
    keys = [each.pop(VERSION_TABLE) for each in shapes]
    assert [key["columns"] for key in keys] == [keys[0]["columns"]] * 2
    assert shapes[0] == shapes[1]
    assert len([table for table in shapes[0] if not table.startswith(words.TABLE)]) == len(metadata.tables) - 1


def test_the_migrations_make_what_the_tables_say(new_url: NewUrl) -> None:
    url = new_url()
    migrate(url)

    def differences(connection: Connection) -> list[Any]:
        options = {"compare_type": True, "compare_server_default": True, "version_table": VERSION_TABLE}
        found = compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
        return [each for each in found if each[1].name not in {VERSION_TABLE, words.INDEX} and not _is_of_words(each[1])]

    assert on(url, differences) == []


def _is_of_words(part: Any) -> bool:
    """True for the tables of the index of words, which are made without SQLAlchemy."""
    return str(part.name).startswith(words.TABLE)


def test_the_newest_migration_is_the_schema(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    heads = on(url, lambda connection: ScriptDirectory.from_config(alembic_config(connection)).get_heads())
    assert heads == [SCHEMA]
    migrate(url)
    kept = on(url, lambda connection: connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all())
    assert kept == [SCHEMA]


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


CLOCK = {
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) AS double precision)",
}


SESSION_0001 = text(
    "INSERT INTO turnwise_sessions VALUES "
    "(:row, 'app', 'user', :id, 3, 7, 3, 1, :until, :holder, :at, :at, :head, :state, :initial)"
)
EVENT_0001 = text("INSERT INTO turnwise_events VALUES (:row, :sequence, :id, :invocation, :author, false, NULL, :body)")
MESSAGE_0001 = text("INSERT INTO turnwise_messages VALUES (:row, :row, 'm-1', 'queued', NULL, :at, '', :body)")
STATE_0001 = text("INSERT INTO turnwise_state VALUES ('app', '', 'shared', '2')")
LOG = (
    said("help", "hi", invocation="i-0", state_delta={"a": 1}),
    asked("work", invocation="i-1", agent="help"),
    said("help", "half", invocation="i-1", state_delta={"half": 1}),
)
SENT = Message(id="m-1", content=text_content("hello", "user"))


def first_head() -> str:
    """The head of that log as the first version wrote it."""
    head = fold(Session(app="", user="", id="", created_at=NOW, updated_at=NOW), LOG).head.model_dump(mode="json")
    for invocation in head["invocations"].values():
        del invocation["since"], invocation["attempt"]
    return json.dumps(head, separators=(",", ":"))


def _old_text(event: Event) -> str:
    """An event's body as versions before 0006 wrote it."""
    return event.model_dump_json(exclude={"sequence"}, exclude_none=True)


def first_version(url: str) -> None:
    """A database of the first tables, with all that a session can have: `session` has a holder, `dead` had one."""

    def fill(connection: Connection) -> None:
        now = connection.execute(text(f"SELECT {CLOCK[connection.dialect.name]}")).scalar_one()
        at = time_text(NOW)
        for row, (id_, until, holder) in enumerate(
            (("session", now + 50, "h"), ("dead", now - 50, "h"), ("free", None, None)), 1
        ):
            values = {"row": row, "id": id_, "until": until, "holder": holder, "at": at, "head": first_head()}
            connection.execute(SESSION_0001, values | {"state": '{"a":1,"half":1}', "initial": "{}"})
            for sequence, event in enumerate(LOG, 1):
                values = {"row": row, "sequence": sequence, "id": event.id, "author": event.author, "body": _old_text(event)}
                connection.execute(EVENT_0001, values | {"invocation": event.invocation_id})
            connection.execute(MESSAGE_0001, {"row": row, "at": at, "body": SENT.model_dump_json(exclude={"config"})})
        connection.execute(STATE_0001)

    on(url, lambda connection: command.upgrade(alembic_config(connection), "0001"))
    on(url, fill)


async def check_whole(store: SqlSessionStore, key: SessionKey) -> Session:
    session = await opened(store, key)
    assert (session.epoch, session.revision, session.last_sequence, session.queued) == (3, 7, 3, 1)
    assert (session.state, session.app_state, session.stop) == ({"a": 1, "half": 1}, {"shared": 2}, None)
    assert (session.created_at, session.head.active_agent) == (NOW, "help")
    assert [event.text for event in await store.events(key)] == ["hi", "work", "half"]
    assert await store.inbox.queued(key) == SENT
    assert session.head.invocations["i-1"].since == 2, "or a new attempt would take back what came before"
    await check_fold(store, key)
    return session


def test_what_the_first_version_kept_comes_through_whole(new_url: NewUrl) -> None:
    url, reference = new_url(), new_url()
    first_version(url)

    async def check(store: SqlSessionStore) -> None:
        held, dead, _ = [await check_whole(store, KEY._replace(id=id_)) for id_ in ("session", "dead", "free")]
        # No process of the older version writes to the new tables.
        assert sorted(key.id for key in await store.leases.due("app")) == ["dead", "free", "session"]
        await store.leases.stop(KEY, "i-1")
        assert await store.leases.stops("h") == [(KEY, "i-1")]
        over = await store.append(held, [said("help", "more")], release=True)
        assert (over.held, over.queued, over.state) == (False, 1, {"a": 1, "half": 1})
        taken = await store.take(dead, Lease("other", 60.0), [rewinds(dead.head.invocations["i-1"].since + 1)])
        assert taken.state == {"a": 1}
        assert await check_fold(store, dead.key) == taken
        assert [key.id for key in await store.leases.due("app")] in (["free", "session"], ["session", "free"])

    using(url, check)
    migrate(reference)
    assert on(url, shape) == on(reference, shape)


DECISION_0003 = text(
    "INSERT INTO turnwise_decisions (session, sequence, app, invocation_id, agent, method, confidence, fingerprint, "
    "created_at, text, selection) VALUES (:row, :at, 'app', :invocation, 'help', 'resume', 1, '', :now, '', :selection)"
)
BEGUN_0003 = text(
    "INSERT INTO turnwise_messages (id, session, message_id, state, invocation_id, accepted_at, problem, body) "
    "VALUES (:row, 1, :id, 'started', :invocation, :now, '', '{}')"
)


def third_version(url: str) -> None:
    """What the first version made, and a decision of an agent, and a copy as of a fork, at the third version's tables."""
    first_version(url)
    selection = asked().actions.selection
    assert selection is not None

    def fill(connection: Connection) -> None:
        values = {"now": time_text(NOW), "selection": selection.model_dump_json()}
        for row, sequence in ((1, 2), (1, 3), (3, 2)):
            connection.execute(DECISION_0003, values | {"row": row, "at": sequence, "invocation": "i-1"})
        for row in (17, 18):
            connection.execute(BEGUN_0003, {"row": row, "id": f"m-{row}", "invocation": "i-1", "now": time_text(NOW)})

    on(url, lambda connection: command.upgrade(alembic_config(connection), "0003"))
    on(url, fill)


def test_how_older_invocations_stand_is_unknown_until_it_changes(new_url: NewUrl) -> None:
    """One that its first decision tells of, and none for a fork's copy."""
    url = new_url()
    third_version(url)

    async def check(store: SqlSessionStore) -> None:
        for states in (None, ["completed"]):
            (info,) = (await store.decisions.invocations("app", user="user", states=states)).items
            assert (info.key, info.sequence, info.event_id) == (KEY, 2, LOG[1].id)
            assert (info.invocation_id, info.state, info.changed_at) == ("i-1", None, NOW)
        await store.append(await opened(store, KEY), [ended(invocation="i-1")])
        (info,) = (await store.decisions.invocations("app", user="user")).items
        assert info.state == "completed"

    using(url, check)


def test_when_older_waits_expire_is_known(new_url: NewUrl) -> None:
    """A34: a process that never saw the session ends its wait."""
    url, at = new_url(), NOW + timedelta(minutes=1)

    async def write(store: SqlSessionStore) -> None:
        for id_, expiry in (("expires", at), ("never", None)):
            session = await store.create(KEY._replace(id=id_))
            await store.append(session, [asked(), said("help", awaits=Await(id="w-1", expires_at=expiry))])
        await store.create(KEY._replace(id="new"))

    def forget(connection: Connection) -> None:
        for statement in (
            "DROP INDEX turnwise_sessions_expiry_ix",
            "ALTER TABLE turnwise_sessions DROP COLUMN expires_at",
            "ALTER TABLE turnwise_processes DROP COLUMN serves",
        ):
            connection.execute(text(statement))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0010'"))

    using(url, write)
    on(url, forget)
    assert using(url, lambda store: store.leases.expired("app", at)) == [KEY._replace(id="expires")]
    assert using(url, lambda store: store.leases.next_expiry("app", NOW)) == (KEY._replace(id="expires"), at)


_START = """
import asyncio, sys
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql import SqlSessionStore, schema, words

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
            with pytest.raises(SchemaNewer, match=rf"revision 9999, .* knows up to {SCHEMA}\. Update Turnwise"):
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
