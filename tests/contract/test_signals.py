"""The signals against the public conformance suite: in one process, and through a real PostgreSQL."""

import asyncio

import pytest

from turnwise.ports.signals import Signals
from turnwise.stores.sql.local_signals import LocalSignals
from turnwise.stores.sql.postgres_signals import PostgresSignals
from turnwise.testing import signals_suite
from turnwise.testing.postgres import postgres_url


@pytest.fixture(params=["local", "postgresql"])
def signals(request: pytest.FixtureRequest) -> Signals:
    return LocalSignals() if request.param == "local" else PostgresSignals(postgres_url())


@pytest.mark.parametrize("case", signals_suite.CASES, ids=lambda case: case.__name__)
def test_conformance(case: signals_suite.Case, signals: Signals) -> None:
    """E7"""

    async def run() -> None:
        try:
            await case(signals)
        finally:
            await signals.close()

    asyncio.run(run())


@pytest.mark.parametrize("case", signals_suite.ENDINGS, ids=lambda case: case.__name__)
def test_conformance_at_the_end(case: signals_suite.Case, signals: Signals) -> None:
    """E7"""
    asyncio.run(case(signals))


@pytest.mark.parametrize("case", signals_suite.SHARED_CASES, ids=lambda case: case.__name__)
def test_conformance_of_several(case: signals_suite.SharedCase) -> None:
    """E7: what lives in one process reaches no other."""
    asyncio.run(case(lambda: PostgresSignals(postgres_url())))
