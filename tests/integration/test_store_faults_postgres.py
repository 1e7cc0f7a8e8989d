"""What goes wrong with a PostgreSQL server: clear errors, and a store that goes on afterwards."""

import asyncio
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url
from store_play import KEY

from turnwise.facts.errors import StoreError, StoreUnavailable
from turnwise.facts.hints import install_command
from turnwise.facts.sessions import Session
from turnwise.stores.sql import SqlSessionStore
from turnwise.stores.sql.postgres import PostgresExecutor
from turnwise.testing.postgres import new_postgres_database, postgres_url
from turnwise.testing.session_store_cases.making import at_once, lost, opened, said, texts, won


async def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    executor = PostgresExecutor(make_url(f"postgresql://someone:secret@/db?host={tmp_path}"), patience=0.3)
    with pytest.raises(StoreUnavailable, match=r"database postgresql://someone:\*\*\*@/db cannot be reached") as caught:
        await executor.read(lambda _connection: None)
    assert "secret" not in str(caught.value)
    await executor.close()


async def test_a_database_that_is_not_there() -> None:
    store = SqlSessionStore(postgres_url().replace("/postgres?", "/nowhere?"))
    with pytest.raises(StoreError, match='"nowhere" does not exist') as caught:
        await store.open(KEY)
    assert not isinstance(caught.value, StoreUnavailable), "trying again would not help"
    await store.close()


async def test_lost_connections_are_made_again() -> None:
    url = new_postgres_database()
    store = SqlSessionStore(url)
    sessions = [await store.create(KEY._replace(id=str(n))) for n in range(8)]
    await asyncio.gather(*(store.append(session, [said("help", "before")]) for session in sessions))
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    async def go_on(session: Session) -> Session:
        return await store.append(await opened(store, session.key), [said("help", "after")])

    results = await at_once(go_on(session) for session in sessions)
    assert lost(results) == []
    assert {tuple(await texts(store, session.key)) for session in sessions} == {("before", "after")}
    await store.close()


async def test_transactions_that_collide_are_made_again() -> None:
    """Two sessions write the same shared keys at once, and each holds the row of its own."""
    store = SqlSessionStore(new_postgres_database())

    async def write(number: int) -> None:
        session = await store.create(KEY._replace(id=str(number)))
        for turn in range(10):
            keys = ("app:a", "user:b") if turn % 2 else ("user:b", "app:a")
            gone = {"app:c": None, "user:d": turn} if number % 2 else {"app:c": turn, "user:d": None}
            session = await store.append(session, [said("help", state_delta=dict.fromkeys(keys, number) | gone)])

    assert lost(await at_once(write(number) for number in range(8))) == []
    assert len(won([await store.list("app")])[0].items) == 8
    await store.close()


def test_postgresql_without_its_library() -> None:
    program = """
import asyncio, sys
sys.modules["psycopg"] = None
from turnwise.facts.errors import MissingExtra
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql import SqlSessionStore
store = SqlSessionStore("postgresql://nobody@localhost/none")
async def main():
    try:
        await store.open(SessionKey("app", "user", "session"))
    except MissingExtra as missing:
        print(missing)
    await store.close()
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert "PostgreSQL needs an optional library" in done.stdout
    assert install_command(["postgres"]) in done.stdout
