from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, Select, create_engine, text

from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql import inbox, leases
from turnwise.stores.sql.app_tables import metadata
from turnwise.testing.postgres import new_postgres_database


@pytest.fixture(params=["sqlite", "postgresql"])
def connection(request: pytest.FixtureRequest) -> Iterator[Connection]:
    on_postgresql = request.param == "postgresql"
    engine = create_engine(
        new_postgres_database().replace("postgresql:", "postgresql+psycopg:") if on_postgresql else "sqlite://"
    )
    with engine.begin() as opened:
        metadata.create_all(opened)
        if on_postgresql:
            # An empty table is read faster than any index.
            opened.execute(text("SET LOCAL enable_seqscan = off"))
        yield opened
    engine.dispose()


def plan(connection: Connection, statement: Select[Any], **values: Any) -> str:
    """How the database goes about a statement."""
    compiled = statement.compile(connection)
    known = compiled.construct_params(values)
    given = tuple(known[name] for name in compiled.positiontup) if compiled.positiontup else known
    explain = "EXPLAIN QUERY PLAN" if connection.dialect.name == "sqlite" else "EXPLAIN"
    return " ".join(str(row) for row in connection.exec_driver_sql(f"{explain} {compiled}", given))


def test_what_waits_is_found_by_its_index(connection: Connection) -> None:
    """E7: looking for it costs little, however many sessions there are in which nothing is to be done."""
    assert "turnwise_sessions_due_ix" in plan(connection, leases.DUE, at_app="a", at_most=1)
    assert "turnwise_sessions_expiry_ix" in plan(connection, leases.EXPIRED, at_app="a", at_time="2026", at_most=1)
    assert "turnwise_sessions_expiry_ix" in plan(connection, leases.NEXT_EXPIRY, at_app="a", at_time="2026")
    assert "turnwise_sessions_stops_ix" in plan(connection, leases.STOPS, holder="h")
    assert "turnwise_sessions_due_ix" in plan(connection, inbox.LENGTHS, at_app="a")


def test_a_page_holds_at_least_one(connection: Connection) -> None:
    assert leases.due(connection, "a", 1) == []
    with pytest.raises(ValueError, match="limit is 0"):
        leases.due(connection, "a", 0)


def test_there_is_nothing_to_stop_in_a_missing_session(connection: Connection) -> None:
    """A23"""
    leases.request_stop(connection, SessionKey("a", "b", "c"), "i-1")
    assert leases.stop_requests(connection, "h") == []
