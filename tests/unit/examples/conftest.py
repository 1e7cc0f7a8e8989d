"""The help desk of the examples, importable and with a database and a clock of its own."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "helpdesk"))

NOW = "2026-11-19T10:00"
"""A Thursday morning."""


@pytest.fixture
def shop_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the shop database of this test is; it is made when it is first opened."""
    file = tmp_path / "shop.db"
    monkeypatch.setenv("HELPDESK_DB", str(file))
    monkeypatch.setenv("HELPDESK_NOW", NOW)
    return file
