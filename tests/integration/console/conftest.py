"""Databases for the console's tests."""

from pathlib import Path

import pytest

from turnwise.testing.postgres import postgres_url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of the test's own: SQLite on disk, and a real PostgreSQL."""
    return f"sqlite:///{tmp_path}/sessions.db" if request.param == "sqlite" else postgres_url()
