"""The SQL store's keys and counters against the public conformance suite: SQLite on disk and in memory, and PostgreSQL."""

import asyncio

import pytest

from turnwise.stores.sql import SqlSessionStore
from turnwise.testing import key_store_suite


@pytest.mark.parametrize("case", key_store_suite.CASES, ids=lambda case: case.__name__)
async def test_conformance(case: key_store_suite.Case, url: str) -> None:
    store = SqlSessionStore(url)
    try:
        await case(store)
    finally:
        await store.close()


@pytest.mark.parametrize("case", key_store_suite.SHARED_CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_conformance_of_several_handles(case: key_store_suite.SharedCase, url: str) -> None:
    """A database in memory has one handle only."""
    asyncio.run(case(lambda: SqlSessionStore(url)))
