"""Several handles on one place, as several processes have."""

import asyncio
from collections.abc import Callable

from turnwise.facts.errors import SessionBusy, StaleWriter
from turnwise.ports.stores import Lease, SessionStore
from turnwise.testing.session_store_cases.making import (
    LEASE,
    OTHER_LEASE,
    SharedCase,
    asked,
    at_once,
    check_fold,
    ended,
    fresh_key,
    lost,
    message,
    opened,
    refused,
    said,
    texts,
    told,
    won,
)


async def what_was_written_is_there_after_closing(store: Callable[[], SessionStore]) -> None:
    """A32: durable when a call returns."""
    key = fresh_key()
    first = store()
    session = await told(first, key, "i-1")
    await first.inbox.accept(key, message(id_="m-1"), create=False, limit=1)
    await first.close()
    await first.close()
    second = store()
    assert await second.open(key) == session
    assert await check_fold(second, key) == session
    queued = await second.inbox.queued(key)
    assert queued is not None
    assert queued.id == "m-1"
    await second.close()


async def two_handles_see_each_other_at_once(store: Callable[[], SessionStore]) -> None:
    """A33"""
    key, one, two = fresh_key(), store(), store()
    session = await one.create(key)
    assert await two.open(key) == session
    session = await two.append(session, [said("help", "two")])
    session = await one.append(session, [said("help", "one")])
    assert await texts(two, key) == ["two", "one"]
    await two.delete(key)
    assert await one.open(key) is None
    await one.close()
    await two.close()


async def one_writer_among_several_handles(store: Callable[[], SessionStore]) -> None:
    """A32, A33"""
    key = fresh_key()
    handles = [store() for _ in range(4)]
    session = await handles[0].create(key)
    results = await at_once(
        handle.begin(session, Lease(f"holder-{n}", 60.0), message(str(n)), [asked(str(n))], queue_limit=9)
        for n, handle in enumerate(handles)
    )
    (begun,) = won(results)
    assert [type(error) for error in lost(results)] == [SessionBusy] * 3
    over = await handles[3].append(begun, [ended()], release=True)
    results = await at_once(handle.append(over, [said("help")]) for handle in handles)
    assert [type(error) for error in lost(results)] == [StaleWriter] * 3
    await check_fold(handles[1], key)
    for handle in handles:
        await handle.close()


async def a_lease_is_taken_over_from_another_handle(store: Callable[[], SessionStore]) -> None:
    """A33"""
    key, dead, alive = fresh_key(), store(), store()
    paused = await dead.begin(await dead.create(key), Lease("holder-1", 0.05), message(), [asked()], queue_limit=None)
    await asyncio.sleep(0.15)
    taken = await alive.begin(await opened(alive, key), OTHER_LEASE, message(), [asked(invocation="i-2")], queue_limit=None)
    await refused(dead.append(paused, [said("help")]), StaleWriter)
    await refused(dead.renew(paused, LEASE), StaleWriter)
    await alive.append(taken, [ended(invocation="i-2")], release=True)
    await dead.close()
    await alive.close()


async def handles_write_side_by_side(store: Callable[[], SessionStore]) -> None:
    """A32: nothing is lost, and nothing locked."""
    key = fresh_key()
    handles = [store() for _ in range(3)]

    async def talk(number: int) -> None:
        mine = key._replace(id=str(number))
        session = await handles[number % 3].create(mine)
        for turn in range(5):
            text = f"{number}.{turn}"
            session = await handles[(number + turn) % 3].append(session, [said("help", text, state_delta={"app:n": text})])

    assert lost(await at_once(talk(number) for number in range(15))) == []
    for number in range(15):
        assert await texts(handles[0], key._replace(id=str(number))) == [f"{number}.{turn}" for turn in range(5)]
    for handle in handles:
        await handle.close()


CASES: tuple[SharedCase, ...] = (
    what_was_written_is_there_after_closing,
    two_handles_see_each_other_at_once,
    one_writer_among_several_handles,
    a_lease_is_taken_over_from_another_handle,
    handles_write_side_by_side,
)
