"""Conformance suite for `Keys` and `Counters`: test cases that a test calls.

    @pytest.mark.parametrize("case", key_store_suite.CASES, ids=lambda case: case.__name__)
    def test_my_gate(case):
        asyncio.run(case(MyStore()))

Each case uses new apps and names, so all cases may share one store; the test closes it. A case fails with AssertionError.
`SHARED_CASES` take a function that opens several stores on the same data, like several processes, and close them.
"""

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from turnwise.facts.callers import ApiKey
from turnwise.facts.errors import StoreError
from turnwise.ports.key_store import Counters, KeyStore

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
LONG = 3600.0
"""Seconds that do not elapse during a case."""
SHORT = 0.05
"""Seconds that a case can wait for."""
PATIENCE = 60.0
"""Seconds after which a case gives up waiting for a place."""


class ClosableKeyStore(KeyStore, Protocol):
    """A store as one process opens it."""

    async def close(self) -> None: ...


Case = Callable[[KeyStore], Coroutine[Any, Any, None]]
SharedCase = Callable[[Callable[[], ClosableKeyStore]], Coroutine[Any, Any, None]]


def fresh(what: str = "app") -> str:
    """Returns a unique name."""
    return f"{what}-{uuid.uuid4().hex[:12]}"


def a_key(id: str = "0123456789ab", **fields: Any) -> ApiKey:
    """Returns a key with these fields and defaults for the others."""
    return ApiKey(**{"id": id, "name": "a key", "hash": "5" * 64, "user": "ann", "created_at": NOW, **fields})


async def _place(counters: Counters, name: str, holder: str, most: int) -> None:
    """Waits until the holder gets a place."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if await counters.take(name, holder, most, LONG):
                return
            await asyncio.sleep(SHORT)


async def a_key_comes_back_as_it_was(store: KeyStore) -> None:
    app = fresh()
    plain = a_key()
    full = a_key(
        "ffffffffffff",
        name="Straße – 東京 🔑",
        role="operator",
        user=None,
        agent_roles=("staff", "human resources"),
        scopes=("sessions:read", "decisions:label"),
        created_at=NOW + timedelta(microseconds=1),
        expires_at=NOW + timedelta(days=90),
    )
    nothing = a_key("eeeeeeeeeeee", user=None, acts_for_users=True, scopes=(), created_at=NOW + timedelta(seconds=1))
    for key in (plain, full, nothing):
        await store.keys.add(app, key)
        assert await store.keys.find(app, key.id) == key
    assert list(await store.keys.list(app)) == [plain, full, nothing], "oldest first"


async def keys_of_one_app_are_not_anothers(store: KeyStore) -> None:
    app, other = fresh(), fresh()
    await store.keys.add(app, a_key())
    assert await store.keys.find(other, a_key().id) is None
    assert list(await store.keys.list(other)) == []
    assert not await store.keys.expire(other, a_key().id, NOW)
    await store.keys.forget(other, a_key().id)
    assert await store.keys.find(app, a_key().id) == a_key()
    assert await store.keys.find(app, "000000000000") is None


async def adding_a_key_again_changes_nothing(store: KeyStore) -> None:
    app = fresh()
    await store.keys.add(app, a_key())
    await store.keys.expire(app, a_key().id, NOW)
    await store.keys.add(app, a_key())
    kept = a_key(expires_at=NOW)
    assert await store.keys.find(app, a_key().id) == kept
    try:
        await store.keys.add(app, a_key(hash="6" * 64))
    except StoreError:
        pass
    else:
        raise AssertionError("Another key under the same id would lock out the first, or be lost.")
    assert list(await store.keys.list(app)) == [kept]


async def a_key_expires_once_and_never_later(store: KeyStore) -> None:
    app, key = fresh(), a_key(expires_at=NOW + timedelta(days=1))
    await store.keys.add(app, key)
    for at, kept in ((2, 1), (0.5, 0.5), (0.7, 0.5)):
        assert await store.keys.expire(app, key.id, NOW + timedelta(days=at))
        found = await store.keys.find(app, key.id)
        assert found == key.replace(expires_at=NOW + timedelta(days=kept))
    assert not await store.keys.expire(app, "000000000000", NOW)


async def a_key_is_forgotten_for_good(store: KeyStore) -> None:
    app = fresh()
    await store.keys.add(app, a_key())
    for _ in range(2):
        await store.keys.forget(app, a_key().id)
        assert await store.keys.find(app, a_key().id) is None
    assert list(await store.keys.list(app)) == []


async def what_a_newer_version_wrote_of_a_key_stays(store: KeyStore) -> None:
    app = fresh()
    text = a_key().model_dump_json()[:-1] + ',"colour":"red"}'
    newer = ApiKey.model_validate_json(text)
    await store.keys.add(app, newer)
    found = await store.keys.find(app, newer.id)
    assert found is not None
    assert found.model_extra == {"colour": "red"}


async def a_counter_adds_up(store: KeyStore) -> None:
    name, other = fresh("counter"), fresh("counter")
    tallies = [await store.counters.add(name, amount, LONG) for amount in (1, 2, 10**12)]
    assert [tally.total for tally in tallies] == [1, 3, 10**12 + 3]
    assert all(0 < tally.seconds <= LONG for tally in tallies)
    assert (await store.counters.add(other, 5, LONG)).total == 5


async def a_counter_starts_anew_after_its_window(store: KeyStore) -> None:
    name = fresh("counter")
    await store.counters.add(name, 3, SHORT)
    while (tally := await store.counters.add(name, 1, SHORT)).total > 3:
        assert 0 <= tally.seconds <= SHORT
        await asyncio.sleep(tally.seconds)
    assert tally.total == 1
    assert tally.seconds <= SHORT


async def counting_at_once_loses_nothing(store: KeyStore) -> None:
    name = fresh("counter")
    tallies = await asyncio.gather(*(store.counters.add(name, 1, LONG) for _ in range(60)))
    assert sorted(tally.total for tally in tallies) == list(range(1, 61))


async def there_are_so_many_places_and_no_more(store: KeyStore) -> None:
    name, other, counters = fresh("place"), fresh("place"), store.counters
    assert [await counters.take(name, holder, 2, LONG) for holder in "abc"] == [True, True, False]
    assert await counters.take(other, "c", 2, LONG)
    assert await counters.take(name, "a", 2, LONG), "who has one keeps it"
    await counters.give(name, "c")
    assert not await counters.take(name, "c", 2, LONG), "who had none gave none"
    for _ in range(2):
        await counters.give(name, "a")
    assert [await counters.take(name, holder, 2, LONG) for holder in "cd"] == [True, False]


async def a_place_lapses(store: KeyStore) -> None:
    name, counters = fresh("place"), store.counters
    assert await counters.take(name, "dead", 1, SHORT)
    await _place(counters, name, "next", 1)
    assert not await counters.take(name, "dead", 1, LONG)


async def a_place_that_is_taken_again_lasts_longer(store: KeyStore) -> None:
    name, counters = fresh("place"), store.counters
    assert await counters.take(name, "holder", 1, SHORT)
    if await counters.take(name, "holder", 1, LONG):
        await asyncio.sleep(2 * SHORT)
        assert not await counters.take(name, "other", 1, LONG)


async def places_are_never_given_twice(store: KeyStore) -> None:
    name, held, most = fresh("place"), 0, 3

    async def one(holder: str) -> None:
        nonlocal held
        await _place(store.counters, name, holder, most)
        held += 1
        assert held <= most
        await asyncio.sleep(0)
        held -= 1
        await store.counters.give(name, holder)

    await asyncio.gather(*(one(f"holder-{number}") for number in range(12)))


async def names_that_cannot_be_kept_are_refused(store: KeyStore) -> None:
    def calls(counters: Counters) -> list[Coroutine[Any, Any, Any]]:
        return [
            store.keys.find("app", "a\0b"),
            store.keys.list("a\0b"),
            store.keys.expire("app\0", "id", NOW),
            counters.add("a\0b", 1, LONG),
            counters.take("name", "a\0b", 1, LONG),
        ]

    for call in calls(store.counters):
        try:
            await call
        except StoreError:
            continue
        raise AssertionError("NUL is kept by no database; an empty answer would be a lie.")


CASES: tuple[Case, ...] = (
    a_key_comes_back_as_it_was,
    keys_of_one_app_are_not_anothers,
    adding_a_key_again_changes_nothing,
    a_key_expires_once_and_never_later,
    a_key_is_forgotten_for_good,
    what_a_newer_version_wrote_of_a_key_stays,
    a_counter_adds_up,
    a_counter_starts_anew_after_its_window,
    counting_at_once_loses_nothing,
    there_are_so_many_places_and_no_more,
    a_place_lapses,
    a_place_that_is_taken_again_lasts_longer,
    places_are_never_given_twice,
    names_that_cannot_be_kept_are_refused,
)


async def what_one_keeps_others_see(open_: Callable[[], ClosableKeyStore]) -> None:
    here, there, app = open_(), open_(), fresh()
    await here.keys.add(app, a_key())
    assert await there.keys.find(app, a_key().id) == a_key()
    await there.keys.expire(app, a_key().id, NOW)
    assert await here.keys.find(app, a_key().id) == a_key(expires_at=NOW)
    await there.close()
    await here.close()


async def all_count_together(open_: Callable[[], ClosableKeyStore]) -> None:
    stores, counter, place = [open_() for _ in range(3)], fresh("counter"), fresh("place")
    adding = (store.counters.add(counter, 1, LONG) for store in stores for _ in range(20))
    assert sorted(tally.total for tally in await asyncio.gather(*adding)) == list(range(1, 61))
    taking = (store.counters.take(place, f"{n}-{m}", 7, LONG) for n, store in enumerate(stores) for m in range(5))
    assert sum(await asyncio.gather(*taking)) == 7
    for store in stores:
        await store.close()


SHARED_CASES: tuple[SharedCase, ...] = (what_one_keeps_others_see, all_count_together)
