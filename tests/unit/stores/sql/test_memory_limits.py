"""The store keeps at most so many entries of a user."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import update

from turnwise.facts.errors import StorageUsed
from turnwise.facts.memory import ENTRIES, MemoryEntry
from turnwise.stores.sql import SqlSessionStore
from turnwise.stores.sql.memory import SqlMemory
from turnwise.stores.sql.memory_rows import memory_users


def entry(name: str) -> MemoryEntry:
    return MemoryEntry(id=name, text=f"The {name}.", created_at=datetime.now(UTC))


async def test_one_entry_too_many_is_refused_and_nothing_is_stored() -> None:
    """G7: entries that are stored already need no room."""
    store = SqlSessionStore("sqlite://")
    assert isinstance(store.memory, SqlMemory)
    await store.memory.remember("app", "ann", [entry("first")])
    full = update(memory_users).values(entries=ENTRIES)
    await store.memory._executor.write(lambda connection: connection.execute(full).rowcount)
    with pytest.raises(StorageUsed) as refused:
        await store.memory.remember("app", "ann", [entry("first"), entry("second")])
    assert refused.value.code == "user.storage"
    assert [each.id for each in (await store.memory.recent("app", "ann")).items] == ["first"]
    assert [each.id for each in await store.memory.remember("app", "ann", [entry("first")])] == ["first"]
    assert [each.id for each in await store.memory.remember("app", "bob", [entry("second")])] == ["second"]
    await store.close()
