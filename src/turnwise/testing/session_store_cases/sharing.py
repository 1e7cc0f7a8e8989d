"""Several handles on the same data, like several processes."""

import asyncio
from collections.abc import Callable

from turnwise.facts.errors import SessionBusy, StaleWriter
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import Lease, SessionStore
from turnwise.testing.session_store_cases.making import (
    LEASE,
    OTHER_LEASE,
    SHORT,
    SHORT_IS_OVER,
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
    rewinds,
    said,
    texts,
    told,
    won,
)


async def what_was_written_is_there_after_closing(store: Callable[[], SessionStore]) -> None:
    """A32: a write is durable once the call returns."""
    key = fresh_key()
    first = store()
    session = await told(first, key, "i-1")
    await first.inbox.accept(key, message(id_="m-1"), create=False, limit=1)
    session = session.replace(queued=1)
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
    await refused(dead.leases.renew(paused, LEASE), StaleWriter)
    await alive.append(taken, [ended(invocation="i-2")], release=True)
    await dead.close()
    await alive.close()


async def handles_write_side_by_side(store: Callable[[], SessionStore]) -> None:
    """A32: no write is lost, and none fails because of a lock."""
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


async def a_session_is_taken_up_by_another_handle(store: Callable[[], SessionStore]) -> None:
    """A33, E7: the dead holder's events are hidden, and its later calls are refused."""
    key, dead, alive = fresh_key(), store(), store()
    lease = Lease(f"holder-of-{key.app}", SHORT.seconds)
    lost_ = await dead.begin(await dead.create(key), lease, message(), [asked()], queue_limit=None)
    lost_ = await dead.append(lost_, [said("help", "half")])
    await alive.leases.stop(key, "i-1")
    assert await dead.leases.stops(lease.holder) == [(key, "i-1")]
    await asyncio.sleep(SHORT_IS_OVER)
    assert await alive.leases.due(key.app) == [key]
    taken = await alive.take(await opened(alive, key), OTHER_LEASE, [rewinds(2)])
    assert (taken.stop, await dead.leases.due(key.app)) == ("i-1", [])
    await refused(dead.append(lost_, [ended(text="late")], release=True), StaleWriter)
    await dead.leases.release(lost_)
    await alive.append(taken, [ended(text="in time")], release=True)
    assert await texts(dead, key) == ["hello", "", "in time"]
    await check_fold(dead, key)
    await dead.close()
    await alive.close()


async def one_of_many_takes_it_among_several_handles(store: Callable[[], SessionStore]) -> None:
    """A33"""
    key, handles = fresh_key(), [store() for _ in range(3)]
    session = await told(handles[0], key, "i-1")
    for round_ in range(5):
        invocation = f"i-{round_ + 2}"
        takes = [
            handle.take(session, Lease(f"taker-{n}", 60.0), [said("help", invocation=invocation)])
            for n, handle in enumerate(handles)
        ]
        begins = [
            handle.begin(session, Lease(f"beginner-{n}", 60.0), message(), [asked(invocation=invocation)], queue_limit=None)
            for n, handle in enumerate(handles)
        ]
        results = await at_once(takes + begins)
        assert [type(error) for error in lost(results)] == [SessionBusy] * 5
        (winner,) = won(results)
        session = await handles[round_ % 3].append(winner, [ended(invocation=invocation)], release=True)
    assert (session.last_sequence, session.epoch) == (12, 5)
    await check_fold(handles[0], key)
    for handle in handles:
        await handle.close()


async def no_message_is_left_unseen(store: Callable[[], SessionStore]) -> None:
    """A32: either a holder that releases sees a message accepted meanwhile, or the sender sees that there is no holder."""
    key, holding, sending = fresh_key(), store(), store()
    session = await holding.create(key)

    async def sent(session: SessionKey) -> bool:
        await sending.inbox.accept(session, message(), create=False, limit=99)
        return (await opened(sending, session)).held

    for round_ in range(40):
        begun = await holding.begin(session, LEASE, message(), [asked()], queue_limit=None)
        assert begun.queued == 0
        if round_ % 3 == 2:
            await holding.leases.release(begun)
            giving_up = holding.take(begun, LEASE, [ended()], release=True)
        else:
            giving_up = holding.append(begun, [ended()], release=True)
        over, still_held = await asyncio.gather(giving_up, sent(key))
        assert not over.held
        assert over.queued == 1 or not still_held
        waiting = await holding.inbox.queued(key)
        assert waiting is not None
        begun = await holding.begin(await opened(holding, key), LEASE, waiting, [asked()], queue_limit=None)
        session = await holding.append(begun, [ended()], release=True)
        assert session.queued == 0
    await holding.close()
    await sending.close()


async def queued_is_counted_right_whoever_sends(store: Callable[[], SessionStore]) -> None:
    """A32: for a holder that takes messages out while others add some."""
    key, handles = fresh_key(), [store() for _ in range(3)]
    sent = [message(str(n)) for n in range(30)]
    await handles[0].create(key)

    async def send(number: int) -> None:
        for each in sent[number::3]:
            await handles[number].inbox.accept(key, each, create=False, limit=99)

    async def answer() -> list[str]:
        answered: list[str] = []
        while len(answered) < len(sent):
            session = await opened(handles[0], key)
            waiting = await handles[0].inbox.queued(key)
            if waiting is None:
                continue
            begun = await handles[0].begin(session, LEASE, waiting, [asked(waiting.content.text)], queue_limit=None)
            over = await handles[0].append(begun, [ended()], release=True)
            answered.append(waiting.content.text)
            assert 0 <= begun.queued <= len(sent) - len(answered)
            assert begun.queued <= over.queued <= len(sent) - len(answered)
        return answered

    answered, *_ = await asyncio.gather(answer(), *(send(number) for number in range(3)))
    assert [text for text in await texts(handles[1], key) if text] == answered
    assert (await opened(handles[1], key)).queued == 0
    assert await handles[2].leases.due(key.app) == []
    for handle in handles:
        await handle.close()


CASES: tuple[SharedCase, ...] = (
    what_was_written_is_there_after_closing,
    two_handles_see_each_other_at_once,
    one_writer_among_several_handles,
    a_lease_is_taken_over_from_another_handle,
    handles_write_side_by_side,
    a_session_is_taken_up_by_another_handle,
    one_of_many_takes_it_among_several_handles,
    no_message_is_left_unseen,
    queued_is_counted_right_whoever_sends,
)
