"""The SQL store's definitions against the public conformance suite: SQLite on disk and in memory, and PostgreSQL."""

import pytest

from turnwise.stores.sql import SqlSessionStore
from turnwise.testing import definition_store_suite


@pytest.mark.parametrize("case", definition_store_suite.CASES, ids=lambda case: case.__name__)
async def test_conformance(case: definition_store_suite.Case, url: str) -> None:
    """C11, F1, F6."""
    store = SqlSessionStore(url)
    try:
        await case(store.definitions)
    finally:
        await store.close()


@pytest.mark.parametrize("case", definition_store_suite.SHARED_CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
async def test_conformance_of_two_handles(case: definition_store_suite.SharedCase, url: str) -> None:
    """F1, F4: a database in memory has one handle only."""
    here, there = SqlSessionStore(url), SqlSessionStore(url)
    try:
        await case(here.definitions, there.definitions)
    finally:
        await here.close()
        await there.close()
