"""Where the SQL store is held against the conformance suites."""

from pathlib import Path

import pytest

from turnwise.testing.postgres import postgres_url


@pytest.fixture(params=["sqlite", "sqlite in memory", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of the test's own: SQLite on disk and in memory, and a real PostgreSQL."""
    match request.param:
        case "sqlite":
            return f"sqlite:///{tmp_path}/sessions.db"
        case "sqlite in memory":
            return "sqlite://"
    return postgres_url()
