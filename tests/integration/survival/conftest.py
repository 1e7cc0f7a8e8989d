"""What the tests of survival share: a database of each kind."""

from pathlib import Path

import pytest

from turnwise.testing.postgres import new_postgres_database


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database that several processes can use."""
    return f"sqlite:///{tmp_path}/sessions.db" if request.param == "sqlite" else new_postgres_database()
