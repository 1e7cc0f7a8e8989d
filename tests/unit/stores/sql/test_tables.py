import time

import pytest
from sqlalchemy import Connection, create_engine, select, text

from turnwise.facts.errors import StoreError
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql.tables import APP_OWNER, clock, metadata, session_params, user_owner
from turnwise.testing.postgres import postgres_url


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_clock_is_in_seconds_and_goes_on_within_a_transaction(kind: str) -> None:
    """A33"""
    url = "sqlite://" if kind == "sqlite" else postgres_url().replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url)
    with engine.begin() as connection:
        first = _now(connection)
        assert abs(first - time.time()) < 3600
        time.sleep(0.05)
        assert 0.01 < _now(connection) - first < 60
    engine.dispose()


def _now(connection: Connection) -> float:
    connection.execute(text("SELECT 1"))
    return connection.execute(select(clock())).scalar_one()


def test_all_names_are_ours() -> None:
    assert [name for name in metadata.tables if not name.startswith("turnwise_")] == []


def test_no_user_is_the_app() -> None:
    """A24"""
    assert APP_OWNER not in {user_owner(user) for user in ("", "app", APP_OWNER)}


def test_a_name_with_nul_is_refused() -> None:
    for key in (SessionKey("a\0", "b", "c"), SessionKey("a", "\0", "c"), SessionKey("a", "b", "c\0")):
        with pytest.raises(StoreError, match="NUL"):
            session_params(key)
