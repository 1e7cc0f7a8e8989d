"""The SQL store's memory against the public conformance suite: SQLite on disk and in memory, and PostgreSQL."""

import asyncio

import pytest

from turnwise.stores.sql import SqlSessionStore
from turnwise.testing import memory_store_suite
from turnwise.testing.session_store_cases.making import Case, SharedCase


@pytest.mark.parametrize("case", memory_store_suite.CASES, ids=lambda case: case.__name__)
async def test_conformance(case: Case, url: str) -> None:
    store = SqlSessionStore(url)
    try:
        await case(store)
    finally:
        await store.close()


@pytest.mark.parametrize("case", memory_store_suite.SHARED_CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_conformance_of_several_handles(case: SharedCase, url: str) -> None:
    """A database in memory has one handle only."""
    asyncio.run(case(lambda: SqlSessionStore(url)))
