"""How often the same later messages have judged (behaviour H3)."""

import asyncio
from collections.abc import Iterator

import pytest

from turnwise import SqlSessionStore
from turnwise.learning.draft_gain import JUDGED, count_draft


@pytest.fixture
def store() -> Iterator[SqlSessionStore]:
    store = SqlSessionStore("sqlite://")
    yield store
    asyncio.run(store.close())


async def test_each_look_at_the_same_messages_counts(store: SqlSessionStore) -> None:
    """H3: newer labels make a fresh part; another source and another app have their own."""

    async def count(first: int, last: int, source: str = "log", app: str = "app") -> int:
        return await count_draft(store.audit, app, "cli", source, [float(at) for at in range(first, last + 1)])

    assert [await count(10, 20) for _ in range(3)] == [1, 2, 3]
    assert await count(11, 21) == 4, "one more label does not make it fresh"
    assert await count(16, 30) == 1, "more than half is later than what has judged"
    assert await count(16, 30) == 2
    assert await count(10, 20) == 7
    assert await count(10, 20, "a file") == await count(10, 20, app="other") == 1
    (entry, *_) = (await store.audit.list("app", action=JUDGED)).items
    assert (entry.actor, entry.user, entry.details) == ("cli", None, {"source": "a file", "since": 10.0, "until": 20.0})


async def test_many_looks_are_counted(store: SqlSessionStore) -> None:
    for number in range(250):
        assert await count_draft(store.audit, "app", "cli", "log", [1.0]) == number + 1
