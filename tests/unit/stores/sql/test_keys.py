"""API keys as rows."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from turnwise.access.api_keys import is_valid, new_key
from turnwise.stores.sql import SqlSessionStore

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/x.db"


def rows(url: str) -> list[dict[str, Any]]:
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return [dict(row._mapping) for row in connection.execute(text("SELECT * FROM turnwise_keys"))]
    finally:
        engine.dispose()


async def test_a_row_holds_no_secret(url: str) -> None:
    store, (secret, key) = SqlSessionStore(url), new_key("laptop", NOW, user="ann")
    try:
        await store.keys.add("shop", key)
    finally:
        await store.close()
    (row,) = rows(url)
    assert secret[16:] not in str(row)
    assert (row["app"], row["key_id"], row["expires_at"]) == ("shop", key.id, None)


async def test_times_of_all_zones_are_one_time(url: str) -> None:
    """They are compared as texts."""
    store, (_, key) = SqlSessionStore(url), new_key("laptop", NOW, user="ann", lifetime=timedelta(hours=1))
    east = timezone(timedelta(hours=9))
    try:
        await store.keys.add("shop", key)
        assert await store.keys.expire("shop", key.id, (NOW + timedelta(hours=2)).astimezone(east))
        found = await store.keys.find("shop", key.id)
        assert found is not None
        assert found.expires_at == NOW + timedelta(hours=1)
        assert await store.keys.expire("shop", key.id, (NOW + timedelta(minutes=1)).astimezone(east))
        found = await store.keys.find("shop", key.id)
        assert found is not None
        assert not is_valid(found, NOW + timedelta(minutes=1))
    finally:
        await store.close()
