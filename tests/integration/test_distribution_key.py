"""Every statement of a turn names the distribution key, so that a sharded database asks one place only."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from runner_play import key, reason
from sqlalchemy import event
from sqlalchemy.engine import Engine

from turnwise import AgentContext, LlmAgent, Runner, SqlSessionStore, agent
from turnwise.stores.sql.app_tables import metadata
from turnwise.testing.models import ScriptedModel
from turnwise.testing.postgres import new_postgres_database

# Small tables that a sharded database keeps everywhere.
EVERYWHERE = {"app_state", "keys", "version", "versions", "processes", "counters", "places"}
EVERYWHERE |= {"definitions", "definition_revisions", "vectors", "matchers", "rests"}
OF_USERS = {table.name for table in metadata.sorted_tables} - {f"turnwise_{name}" for name in EVERYWHERE}
VALUE = r"(?:-?\d+|\?|%\(\w+\)s(?:::\w+)?|\$\d+)"
# A process looks at the work of all users now and then: pending deletions, and requests to stop its own turns. The erasure of a
# user looks for what that user did to the data of others.
OF_ALL_USERS = (
    "turnwise_audit.actor IN",
    "turnwise_labels.author IN",
    "turnwise_label_changes.author IN",
    "turnwise_label_changes.actor IN",
    "turnwise_label_claims.reviewer IN",
    "turnwise_holds.author IN",
    "FROM turnwise_removals ORDER BY",
    "turnwise_sessions.stop FROM turnwise_sessions WHERE turnwise_sessions.lease",
)


def goes_elsewhere(statement: str) -> bool:
    """Returns whether a statement on a table with users' rows leaves a table's owner open."""
    tables = OF_USERS & set(re.findall(r"\bturnwise_\w+\b", statement))
    if not tables or statement.startswith(("CREATE", "PRAGMA")):
        return False
    if (inserted := re.match(r"INSERT INTO (\w+) \(([^)]*)\)", statement)) is not None:
        tables.discard(inserted[1])
        if "owner" not in inserted[2].split(", "):
            return True
    given = re.findall(rf"\b(?:(\w+)\.)?owner = {VALUE}", statement)
    joined = re.findall(r"\b(\w+)\.owner = (\w+)\.owner", statement)
    known = {name for name in given if name}
    if "" in given and len(tables) == 1:
        return False
    for _ in tables:
        known |= {one for pair in joined if known & set(pair) for one in pair}
    return not tables <= known


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """All statements that connections made from now on run."""
    seen: list[str] = []

    class RecordingCursor(psycopg.Cursor[Any]):
        def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
            seen.append(_text(query))
            return super().execute(query, *arguments, **options)

        def executemany(self, query: Any, *arguments: Any, **options: Any) -> None:
            seen.append(_text(query))
            super().executemany(query, *arguments, **options)

    def trace(connection: Any, _record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.set_trace_callback(seen.append)
        else:
            connection.cursor_factory = RecordingCursor

    event.listen(Engine, "connect", trace)
    yield seen
    event.remove(Engine, "connect", trace)


def _text(query: Any) -> str:
    return query.decode() if isinstance(query, bytes) else str(query)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/sessions.db" if request.param == "sqlite" else new_postgres_database()


@pytest.mark.parametrize(
    ("statement", "elsewhere"),
    [
        ("SELECT 1 FROM turnwise_events WHERE owner = 5 AND log = 1", False),
        ("SELECT 1 FROM turnwise_events WHERE log = 1", True),
        ("INSERT INTO turnwise_events (log, body) VALUES (1, 'owner = 5')", True),
        ("INSERT INTO turnwise_events (owner, log) VALUES (?, ?)", False),
        ("SELECT 1 FROM turnwise_jobs JOIN turnwise_shares ON turnwise_jobs.owner = turnwise_shares.owner", True),
        ("SELECT 1 FROM turnwise_jobs, turnwise_shares WHERE turnwise_jobs.owner = %(a)s::BIGINT", True),
        (
            "SELECT 1 FROM turnwise_jobs, turnwise_shares WHERE turnwise_jobs.owner = turnwise_shares.owner"
            " AND turnwise_shares.owner = %(a)s::BIGINT",
            False,
        ),
        ("SELECT value FROM turnwise_app_state WHERE app = 'a'", False),
    ],
)
def test_the_check_sees_a_statement_that_goes_elsewhere(statement: str, elsewhere: bool) -> None:
    assert goes_elsewhere(statement) is elsewhere


def _agents() -> Any:
    @agent(name="clerk", description="Says it.", patterns=["say"])
    async def clerk(message: str, context: AgentContext) -> str:
        context.state["user:said"] = message
        context.state["app:said"] = message
        return f"It is {message}."

    @agent(name="asker", description="Asks first.", patterns=["order"])
    async def asker(message: str, context: AgentContext) -> str:
        return "For " + (await context.ask("Which name?")).text

    model = LlmAgent("model", model=ScriptedModel("One.", "Two.", "Three."), description="Talks.", patterns=["talk"])

    @agent(name="front", description="Everything else.", children=[clerk, asker, model])
    async def front(message: str) -> str:
        return "Hm."

    return front


async def test_each_statement_of_a_turn_names_the_owner(url: str, statements: list[str]) -> None:
    """A24, A30, A32, A44: messages to functions and models, a wait and its answer, the queue, rewinds, forks, deletions."""
    runner = Runner(_agents(), app="app", store=SqlSessionStore(url))

    async def ask(text: str, session: str = "s", wanted: str = "completed") -> Any:
        result = await (await runner.start(text, user="ada", session=session)).result()
        assert reason(result) == wanted
        return result

    await ask("say it")
    statements.clear()  # The first call makes the tables.
    await ask("say it")
    assert len([one for one in statements if "turnwise_events" in one]) >= 2, "else nothing was recorded"
    for number in range(2):
        result = await ask(f"talk {number}")
    await ask("order", wanted="waiting")
    await ask("Ann", "s")
    both = [await runner.start(f"say {number}", user="ada", session="queue") for number in range(3)]
    assert [reason(await one.result()) for one in both] == ["completed"] * 3
    await runner.sessions.fork(key("s"), "fork")
    await ask("talk 3", "fork")
    await ask("say it", "fork")
    await runner.sessions.rewind(key("fork"), result.invocation_id)
    await ask("say it", "fork")
    await runner.sessions.fork(key("fork"), "second")
    for session in ("s", "fork", "second"):
        await runner.store.events(key(session), hidden=True)
        await runner.store.decisions.search("app", key=key(session))
        await runner.store.decisions.invocations("app", user="ada", key=key(session))
        await runner.store.list("app", user="ada")
        await runner.sessions.delete(key(session))
    await runner.sessions.delete_user("ada")
    await runner.close()
    assert _without(statements, lambda one: any(part in " ".join(one.split()) for part in OF_ALL_USERS)) == []


def _without(statements: list[str], allowed: Callable[[str], bool]) -> list[str]:
    """Returns the statements that go elsewhere and are not allowed."""
    flat = (" ".join(statement.split()) for statement in statements)
    return sorted({one for one in flat if goes_elsewhere(one) and not allowed(one)})
