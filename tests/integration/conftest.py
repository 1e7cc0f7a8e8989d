"""What tests of the help desk, and of databases of any age, begin with."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from helpdesk_play import HELPDESK, Desk, OpenDesk
from migration_play import NewUrl

from turnwise.assemble import load_app
from turnwise.testing.postgres import new_postgres_database


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenDesk:
    """Opens the desk over this test's folder; a second time it is the desk after a restart."""
    monkeypatch.setenv("HELPDESK_DB", str(tmp_path / "shop.db"))
    monkeypatch.setenv("HELPDESK_SESSIONS", str(tmp_path / "sessions.db"))
    monkeypatch.setenv("HELPDESK_ARTIFACTS", str(tmp_path / "artifacts"))
    monkeypatch.setenv("HELPDESK_NOW", "2026-11-19T10:00")
    monkeypatch.delenv("HELPDESK_MODEL", raising=False)

    @asynccontextmanager
    async def open_desk() -> AsyncIterator[Desk]:
        app = load_app(HELPDESK / "turnwise.yaml")
        try:
            yield Desk(app.runner, tmp_path / "shop.db")
        finally:
            await app.runner.close()

    return open_desk


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> NewUrl:
    """Gives URLs of databases that do not exist yet, or are empty."""
    if request.param == "postgresql":
        return new_postgres_database
    count = iter(range(10))
    return lambda: f"sqlite:///{tmp_path}/{next(count)}.db"
