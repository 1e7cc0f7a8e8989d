"""A database that dies under load and comes back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from survival_play.storm import Plan, outages, storm

from turnwise.testing.postgres import PostgresServer


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.close()


async def test_nothing_acknowledged_is_lost_with_the_database(server: PostgresServer, tmp_path: Path) -> None:
    """Decision 3: killed with SIGKILL and started again, three times, and then frozen for a while."""
    plan = Plan(processes=3, sessions=20, rate=6.0, ttl=1.0, seed=1)
    breaking = outages(plan, server, down=(0.2, 0.5, 1.5), frozen=2.0)
    outcome = await storm(server.new_database(), tmp_path, plan, breaking)
    assert outcome.problems == []
    assert outcome.findings.acks
