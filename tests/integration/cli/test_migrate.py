"""`turnwise migrate`: what it says of a database without changing it, and what it changes."""

import hashlib
import json
import sqlite3
from pathlib import Path

import pytest
from alembic import command
from cli_play import turnwise
from store_play import on

from turnwise.stores.sql.schema import alembic_config
from turnwise.stores.sql.tables import SCHEMA

OLD = "0005"


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def old(shop: Path) -> Path:
    """The database of a project as an older version left it."""
    file = shop / "turnwise.db"
    on(f"sqlite:///{file}", lambda connection: command.upgrade(alembic_config(connection), OLD))
    return file


def test_without_a_database_there_is_nothing_to_do(shop: Path) -> None:
    for arguments in (["migrate", "--check"], ["migrate"]):
        said = turnwise(*arguments, cwd=shop)
        assert (said.returncode, said.stderr) == (0, "")
        assert "no tables yet" in said.stdout
    assert not (shop / "turnwise.db").exists()


def test_an_old_database_fails_the_check_and_is_not_changed(shop: Path, old: Path) -> None:
    before = digest(old)
    said = turnwise("migrate", "--check", cwd=shop)
    assert said.returncode == 1
    assert f"revision {OLD}, this version needs {SCHEMA}" in said.stdout
    assert "turnwise migrate" in said.stdout
    told = json.loads(turnwise("migrate", "--check", "--json", cwd=shop).stdout)
    assert told == {"store": "sqlite:///turnwise.db", "found": OLD, "wanted": SCHEMA, "current": False}
    assert digest(old) == before


def test_migrating_makes_the_check_pass(shop: Path, old: Path) -> None:
    said = turnwise("migrate", cwd=shop)
    assert (said.returncode, said.stderr) == (0, "")
    assert f"migrated from revision {OLD} to {SCHEMA}" in said.stdout
    with sqlite3.connect(old) as connection:
        assert connection.execute("SELECT version_num FROM turnwise_version").fetchall() == [(SCHEMA,)]
    connection.close()
    again = turnwise("migrate", "--check", cwd=shop)
    assert again.returncode == 0
    assert "nothing to migrate" in again.stdout


def test_what_cannot_be_read_is_an_error(shop: Path) -> None:
    (shop / "turnwise.db").write_text("no database, but text of more than a few bytes " * 20)
    said = turnwise("migrate", "--check", cwd=shop)
    assert (said.returncode, said.stdout) == (3, "")
    assert "cannot be read" in said.stderr
    assert "Traceback" not in said.stderr


def test_a_mistake_in_the_configuration_is_told(shop: Path) -> None:
    configuration = shop / "turnwise.yaml"
    configuration.write_text(configuration.read_text().replace("${SHOP_STORE:-sqlite:///turnwise.db}", "mysql://host/db"))
    said = turnwise("migrate", "--check", cwd=shop)
    assert said.returncode == 2
    assert "store" in said.stderr


def test_sessions_in_memory_are_not_migrated(shop: Path) -> None:
    configuration = shop / "turnwise.yaml"
    configuration.write_text(configuration.read_text().replace("${SHOP_STORE:-sqlite:///turnwise.db}", "sqlite://"))
    said = turnwise("migrate", "--check", cwd=shop)
    assert said.returncode == 2
    assert "in memory" in said.stderr
