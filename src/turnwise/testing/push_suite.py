"""Conformance suite for `Pushes`: test cases that a test calls.

    @pytest.mark.parametrize("case", push_suite.CASES, ids=lambda case: case.__name__)
    def test_my_store(case):
        asyncio.run(case(MyStore()))

Each case uses a new app, so all cases may share one store; the test closes it. A case fails with AssertionError. `SHARED_CASES`
take a function that opens several stores on the same data, like several processes, and close them.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol

from turnwise.facts.callers import Caller
from turnwise.facts.errors import SessionMissing, StoreError
from turnwise.facts.sessions import SessionKey
from turnwise.ports.pushes import Push, PushConfig, Pushes, PushPlace
from turnwise.ports.stores import Lease, SessionStore
from turnwise.testing.session_store_cases.making import asked, at_once, ended, fresh_key, opened, refused, said, told


class PushStore(SessionStore, Protocol):
    """A session store that stores push configurations."""

    @property
    def pushes(self) -> Pushes: ...


Case = Callable[[PushStore], Coroutine[Any, Any, None]]
SharedCase = Callable[[Callable[[], PushStore]], Coroutine[Any, Any, None]]

ONE, OTHER = Lease("holder-1", 60.0), Lease("holder-2", 60.0)
MESSAGE = "m-1"


def a_config(id: str = "p-1", **fields: Any) -> PushConfig:
    """Returns a configuration with these fields and defaults for the others."""
    return PushConfig(id=id, **{"url": "https://host.example/hook", "caller": Caller(id="c", user="user-1"), **fields})


async def put(store: PushStore, key: SessionKey, *ids: str, message: str = MESSAGE, after: int | None = 0) -> None:
    for id_ in ids:
        assert await store.pushes.put(key, message, a_config(id_), after=after, most=10)


async def claimed(store: PushStore, key: SessionKey, lease: Lease = ONE, limit: int = 9) -> list[tuple[str, int]]:
    """Claims pushes. Returns the id of each with the sequence number it was told up to."""
    return names(await store.pushes.claim(key.app, _of(key, lease), limit=limit))


def names(pushes: Iterable[Push]) -> list[tuple[str, int]]:
    return sorted((push.place.id, push.told) for push in pushes)


def _of(key: SessionKey, lease: Lease) -> Lease:
    """The lease with a holder that is unique to the case."""
    return lease._replace(holder=f"{lease.holder}-{key.app}")


async def what_is_kept_comes_back_whole(store: PushStore) -> None:
    key = fresh_key()
    await told(store, key, "i-1")
    caller = Caller(id="key:1", user="user-1", agent_roles=("staff",), scopes=("messages:write",))
    secrets = {"url": "https://ä.example/?a=1", "token": "a token", "credentials": "a password"}
    full = a_config("p-2", **secrets, scheme="Bearer", base="http://b", caller=caller)
    await put(store, key, "p-3")
    assert await store.pushes.put(key, MESSAGE, full, after=1, most=10)
    await put(store, key, "p-4", message="m-2")
    assert list(await store.pushes.list(key, MESSAGE)) == [full, a_config("p-3")]
    assert list(await store.pushes.list(key, "m-9")) == list(await store.pushes.list(fresh_key(), MESSAGE)) == []
    found = await store.pushes.claim(key.app, _of(key, ONE), limit=9)
    assert Push(PushPlace(key, MESSAGE, "p-2"), full, 1) in found
    for secret in secrets.values():
        assert secret not in repr(found), "whoever logs it tells no secrets"


async def the_same_id_is_the_same_place(store: PushStore) -> None:
    """Putting an equal configuration keeps the position and the claim. A different one starts anew, and its holder loses the
    claim.
    """
    key = fresh_key()
    await told(store, key, "i-1")
    await put(store, key, "p-1")
    assert await claimed(store, key) == [("p-1", 0)]
    place, holder = PushPlace(key, MESSAGE, "p-1"), _of(key, ONE).holder
    assert await store.pushes.tell(place, holder, 2)
    await put(store, key, "p-1")
    assert await store.pushes.tell(place, holder, 2)
    assert await store.pushes.put(key, MESSAGE, a_config(token="other"), after=None, most=1)
    assert not await store.pushes.tell(place, holder, 3)
    assert await claimed(store, key, OTHER) == [("p-1", 2)], "what was there is known"


async def there_are_so_many_and_no_more(store: PushStore) -> None:
    key = fresh_key()
    await told(store, key, "i-1")
    results = await at_once(store.pushes.put(key, MESSAGE, a_config(f"p-{n}"), after=0, most=3) for n in range(6))
    assert sorted(map(bool, results)) == [False] * 3 + [True] * 3
    (one, *_) = await store.pushes.list(key, MESSAGE)
    assert await store.pushes.put(key, MESSAGE, one, after=0, most=3), "it is there already"
    assert await store.pushes.put(key, "m-2", a_config(), after=0, most=3), "another message has others"
    await store.pushes.remove(key, MESSAGE, one.id)
    await store.pushes.remove(key, MESSAGE, one.id)
    assert await store.pushes.put(key, MESSAGE, a_config("p-9"), after=0, most=3)
    await refused(store.pushes.put(fresh_key(), MESSAGE, a_config(), after=0, most=3), SessionMissing)


async def one_at_a_time_has_it(store: PushStore) -> None:
    key = fresh_key()
    await told(store, key, "i-1")
    await put(store, key, "p-1", "p-2", "p-3")
    first = await claimed(store, key, ONE, limit=2)
    assert len(first) == 2
    rest = await claimed(store, key, OTHER)
    assert sorted(first + rest) == [("p-1", 0), ("p-2", 0), ("p-3", 0)]
    assert await claimed(store, key, ONE) == await claimed(store, key, OTHER) == []
    mine = PushPlace(key, MESSAGE, first[0][0])
    assert not await store.pushes.tell(mine, _of(key, OTHER).holder, 7)
    await store.pushes.leave(mine, _of(key, OTHER).holder, seen=-1)
    assert await claimed(store, key, OTHER) == [], "who does not have it gives nothing back"
    assert {place.id for place in await store.pushes.held(_of(key, ONE).holder)} == {id_ for id_, _ in first}


async def who_dies_loses_it(store: PushStore) -> None:
    key = fresh_key()
    await told(store, key, "i-1")
    await put(store, key, "p-1", "p-2")
    assert len(await claimed(store, key, ONE)) == 2
    assert await claimed(store, key, OTHER) == []
    await store.leases.leave(_of(key, ONE).holder)
    assert len(await store.pushes.held(_of(key, ONE).holder)) == 2
    assert len(await claimed(store, key, OTHER)) == 2
    assert list(await store.pushes.held(_of(key, ONE).holder)) == []
    assert not await store.pushes.tell(PushPlace(key, MESSAGE, "p-1"), _of(key, ONE).holder, 3)


async def it_is_due_again_when_there_is_more(store: PushStore) -> None:
    key = fresh_key()
    session = await store.append(await store.create(key), [asked(), said("help")])
    await put(store, key, "p-1", "p-2")
    holder = _of(key, ONE).holder
    assert await claimed(store, key) == [("p-1", 0), ("p-2", 0)]
    first, second = PushPlace(key, MESSAGE, "p-1"), PushPlace(key, MESSAGE, "p-2")
    assert await store.pushes.tell(first, holder, 2)
    await store.pushes.leave(first, holder, seen=2)
    await store.pushes.leave(second, holder, seen=None)
    assert await claimed(store, key) == []
    session = await store.append(session, [ended()])
    assert await claimed(store, key) == [("p-1", 2)], "the other is told all that there is"
    await store.pushes.leave(first, holder, seen=-1)
    assert await claimed(store, key) == [("p-1", 2)]
    await store.pushes.give_up(holder)
    assert await claimed(store, key, OTHER) == [("p-1", 2)]
    assert [config.id for config in await store.pushes.list(key, MESSAGE)] == ["p-1", "p-2"], "what is told is still there"


async def what_is_taken_away_is_told_no_more(store: PushStore) -> None:
    key = fresh_key()
    second, other = key._replace(id="session-2"), key._replace(user="user-2")
    for each in (key, second, other):
        await told(store, each, "i-1")
        await put(store, each, "p-1")
    assert len(await claimed(store, key)) == 3
    holder = _of(key, ONE).holder
    await store.pushes.remove(key, MESSAGE, "p-1")
    assert not await store.pushes.tell(PushPlace(key, MESSAGE, "p-1"), holder, 1)
    await store.delete(second)
    assert [place.key for place in await store.pushes.held(_of(key, ONE).holder)] == [other]
    await store.delete_user(other.app, other.user)
    assert list(await store.pushes.held(_of(key, ONE).holder)) == []
    assert list(await store.pushes.list(other, MESSAGE)) == []
    await told(store, second, "i-1")
    assert list(await store.pushes.list(second, MESSAGE)) == [], "a new session of that name is another"


async def apps_are_kept_apart(store: PushStore) -> None:
    key, other = fresh_key(), fresh_key()
    for each in (key, other):
        await told(store, each, "i-1")
        await put(store, each, "p-1")
    assert await claimed(store, key) == [("p-1", 0)]
    assert await claimed(store, other, OTHER) == [("p-1", 0)]


async def names_that_cannot_be_kept_are_refused(store: PushStore) -> None:
    key = fresh_key()
    await told(store, key, "i-1")
    await refused(store.pushes.put(key, "m\0", a_config(), after=0, most=1), StoreError)
    await refused(store.pushes.put(key, MESSAGE, a_config("p\0"), after=0, most=1), StoreError)
    await refused(store.pushes.list(key, "m\0"), StoreError)
    await refused(store.pushes.claim(key.app, ONE, limit=0), ValueError)


CASES: tuple[Case, ...] = (
    what_is_kept_comes_back_whole,
    the_same_id_is_the_same_place,
    there_are_so_many_and_no_more,
    one_at_a_time_has_it,
    who_dies_loses_it,
    it_is_due_again_when_there_is_more,
    what_is_taken_away_is_told_no_more,
    apps_are_kept_apart,
    names_that_cannot_be_kept_are_refused,
)


async def whoever_claims_first_has_it(open_: Callable[[], PushStore]) -> None:
    key, stores = fresh_key(), [open_() for _ in range(3)]
    await told(stores[0], key, "i-1")
    ids = [f"p-{n}" for n in range(9)]
    await put(stores[0], key, *ids)
    for _ in range(5):
        found = await asyncio.gather(*(_all_of(store, key, f"{key.app}-{n}") for n, store in enumerate(stores)))
        assert sorted(place.id for each in found for place in each) == ids
        for n, store in enumerate(stores):
            await store.pushes.give_up(f"{key.app}-{n}")
    for store in stores:
        await store.close()


async def what_one_left_another_takes_up(open_: Callable[[], PushStore]) -> None:
    key, dead, alive = fresh_key(), open_(), open_()
    await told(dead, key, "i-1")
    await put(dead, key, "p-1")
    lease = Lease(f"dead-{key.app}", 60.0)
    (push,) = await dead.pushes.claim(key.app, lease, limit=9)
    assert await dead.pushes.tell(push.place, lease.holder, 1)
    await dead.leases.leave(lease.holder)
    assert await claimed(alive, key, OTHER) == [("p-1", 1)]
    assert not await dead.pushes.tell(push.place, lease.holder, 2)
    assert (await opened(alive, key)).last_sequence == 2
    await dead.close()
    await alive.close()


async def _all_of(store: PushStore, key: SessionKey, holder: str) -> list[PushPlace]:
    """Claims for that holder until nothing is left."""
    found: list[PushPlace] = []
    for _ in range(20):
        found += [push.place for push in await store.pushes.claim(key.app, Lease(holder, 60.0), limit=2)]
    return found


SHARED_CASES: tuple[SharedCase, ...] = (whoever_claims_first_has_it, what_one_left_another_takes_up)
