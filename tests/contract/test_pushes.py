"""The SQL store's pushes against the public conformance suite: SQLite on disk and in memory, and PostgreSQL."""

import asyncio
from pathlib import Path

import pytest

from turnwise.stores.sql import SqlSessionStore
from turnwise.testing import push_suite
from turnwise.testing.postgres import postgres_url


@pytest.fixture(params=["sqlite", "sqlite in memory", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "sqlite":
            return f"sqlite:///{tmp_path}/sessions.db"
        case "sqlite in memory":
            return "sqlite://"
    return postgres_url()


@pytest.mark.parametrize("case", push_suite.CASES, ids=lambda case: case.__name__)
async def test_conformance(case: push_suite.Case, url: str) -> None:
    store = SqlSessionStore(url)
    try:
        await case(store)
    finally:
        await store.close()


@pytest.mark.parametrize("case", push_suite.SHARED_CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_conformance_of_several_handles(case: push_suite.SharedCase, url: str) -> None:
    """A database in memory has one handle only."""
    asyncio.run(case(lambda: SqlSessionStore(url)))
