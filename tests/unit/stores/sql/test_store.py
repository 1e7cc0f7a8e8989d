import sqlite3
import threading
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from turnwise.facts.errors import ConfigError
from turnwise.facts.messages import Message
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import Lease
from turnwise.stores.sql import SqlSessionStore
from turnwise.stores.sql.local_signals import LocalSignals
from turnwise.stores.sql.postgres_signals import PostgresSignals
from turnwise.testing.fakes import CountingIssuer
from turnwise.testing.postgres import new_postgres_database
from turnwise.testing.session_store_cases.making import asked, ended, fresh_id, message, rewinds, said

KEY = SessionKey("app", "user", "session")
LEASE = Lease("holder", 60.0)


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """Every statement that any connection made from now on runs, without those of the heartbeats' thread."""
    seen: list[str] = []

    def note(statement: str) -> None:
        if threading.current_thread().name != "turnwise-heartbeats":
            seen.append(statement)

    def trace(connection: sqlite3.Connection, _record: object) -> None:
        connection.set_trace_callback(note)

    event.listen(Engine, "connect", trace)
    yield seen
    event.remove(Engine, "connect", trace)


@pytest.mark.parametrize("url", ["mysql://localhost/x", "sqlite+aiosqlite:///x.db", "postgresql+asyncpg://h/x"])
def test_another_kind_of_database_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"does not know databases of the kind .* Use sqlite:///"):
        SqlSessionStore(url)


@pytest.mark.parametrize("url", ["", "x.db", "user:secret@host"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        SqlSessionStore(url)
    assert "secret" not in str(caught.value)


def test_making_a_store_touches_nothing(tmp_path: Path) -> None:
    SqlSessionStore(f"sqlite:///{tmp_path}/x.db")
    SqlSessionStore("postgresql://nobody@nowhere.invalid/x")
    SqlSessionStore("postgres://nobody@nowhere.invalid/x")
    assert list(tmp_path.iterdir()) == []


async def test_a_turn_is_two_commits_however_long_the_session(tmp_path: Path, statements: list[str]) -> None:
    """The design's budget: opening is at most two reads, and no statement's work grows with the log."""
    store = SqlSessionStore(f"sqlite:///{tmp_path}/x.db")
    for _ in range(2):
        await _turn(store, message())
    seen = []
    for _ in range(2):
        statements.clear()
        await _turn(store, message())
        # The trigger of the index of words runs statements on its own tables; SQLite reports the one that fired it again.
        own = [each for each in statements if not each.startswith("--") and "turnwise_words_" not in each]
        kinds = [" ".join(statement.split()[:3]) for statement, _ in groupby(own)]
        assert kinds.count("COMMIT") == 2
        assert sum(kind.startswith("SELECT") for kind in kinds) == 2
        assert len(kinds) <= 13
        seen.append(kinds)
        session = await store.open(KEY)
        assert session is not None
        await store.append(session, [said("help", "x") for _ in range(300)])
    assert seen[0] == seen[1]
    await store.close()


async def _turn(store: SqlSessionStore, sent: Message) -> None:
    session = await store.open(KEY, blank=True)
    assert session is not None
    invocation = fresh_id("i")
    begun = await store.begin(session, LEASE, sent, [asked(invocation=invocation)], queue_limit=9)
    await store.append(begun, [ended("help", "hi", invocation=invocation)], release=True)


async def test_an_attempt_that_left_nothing_is_taken_up_without_reading_the_log(tmp_path: Path, statements: list[str]) -> None:
    """E7"""
    store = SqlSessionStore(f"sqlite:///{tmp_path}/x.db")
    session = await store.append(await store.create(KEY), [asked(), said("help", "x")])
    statements.clear()
    taken = await store.take(session, LEASE, [rewinds(3)])
    reads = [statement for statement in statements if statement.startswith("SELECT")]
    assert [statement for statement in reads if "FROM turnwise_processes" not in statement] == [], "but for the heartbeats'"
    await store.append(taken, [rewinds(2)])
    assert any("SELECT turnwise_events" in statement for statement in statements), "else this would be too easy"
    await store.close()


def test_signals_are_those_of_the_database(tmp_path: Path) -> None:
    """Made when they are first asked for, and then kept."""
    for url in (f"sqlite:///{tmp_path}/x.db", "sqlite://"):
        store = SqlSessionStore(url)
        assert isinstance(store.signals, LocalSignals)
        assert store.signals.poll_seconds == 0.05
        assert store.signals is store.signals
    assert list(tmp_path.iterdir()) == []
    store = SqlSessionStore("postgres://nobody@nowhere.invalid/x")
    assert isinstance(store.signals, PostgresSignals)
    assert store.signals is store.signals


async def test_closing_a_store_closes_its_signals() -> None:
    store, unused = SqlSessionStore(new_postgres_database()), SqlSessionStore(new_postgres_database())

    def threads() -> int:
        return sum(thread.name == "turnwise-signals" for thread in threading.enumerate())

    before = threads()
    with store.signals.watch(KEY):
        assert threads() == before + 1, "else this would be too easy"
    for _ in range(2):
        await store.close()
        await unused.close()
    assert threads() == before


async def test_times_of_records_come_from_the_issuer() -> None:
    issuer = CountingIssuer()
    store = SqlSessionStore("sqlite://", issuer=issuer)
    first, second = await store.create(KEY), await store.open(KEY._replace(id="other"), blank=True)
    assert second is not None
    assert (second.created_at - first.created_at).total_seconds() == 1
    assert (await store.begin(second, LEASE, message(), [asked()], queue_limit=None)).created_at == second.created_at
    await store.close()
