"""Calls that are repeated because the outcome of the first is unknown (behaviours A32, A33, A34)."""

import asyncio

from turnwise.facts.errors import SessionBusy, StaleWriter
from turnwise.facts.events import Event
from turnwise.facts.messages import Message
from turnwise.facts.sessions import Session
from turnwise.ports.stores import Lease, SessionStore
from turnwise.testing.session_store_cases.making import (
    LEASE,
    OTHER_LEASE,
    SHORT,
    SHORT_IS_OVER,
    Case,
    asked,
    check_fold,
    ended,
    fresh_key,
    message,
    opened,
    refused,
    rewinds,
    said,
    texts,
    told,
    writes,
)


async def _begin(store: SessionStore, session: Session, sent: Message, event: Event, lease: Lease = LEASE) -> Session:
    return await store.begin(session, lease, sent, [event], queue_limit=9)


async def a_begin_made_again_is_the_same(store: SessionStore) -> None:
    """A34: for a blank session, a stored one, and a message that was queued."""
    key = fresh_key()
    waiting = message(id_="m-3")
    for sent in (message(id_="m-1"), message(id_="m-2"), waiting):
        if sent is waiting:
            await store.inbox.accept(key, sent, create=False, limit=1)
        session = await store.open(key, blank=True)
        assert session is not None
        event = asked(sent.id, invocation=f"i-{sent.id}", state_delta={sent.id: 1, "app:n": sent.id})
        begun = await _begin(store, session, sent, event)
        assert await _begin(store, session, sent, event) == begun
        assert (begun.held, begun.queued) == (True, 0)
        assert await check_fold(store, key) == begun
        over = await store.append(begun, [ended(invocation=f"i-{sent.id}")], release=True)
        assert over.epoch == begun.epoch
    assert [text for text in await texts(store, key) if text] == ["m-1", "m-2", "m-3"]


async def a_begin_made_again_late_is_refused(store: SessionStore) -> None:
    """A33, A34: it counts as the same call only if nothing was written after it."""
    key = fresh_key()
    session, sent, event = await store.create(key), message(), asked()
    begun = await _begin(store, session, sent, event)
    await refused(_begin(store, session, sent, event, OTHER_LEASE), StaleWriter)
    await refused(_begin(store, session, sent, asked(invocation="i-2")), StaleWriter)
    await refused(_begin(store, session, message(), event), StaleWriter)
    await refused(_begin(store, begun, sent, event), StaleWriter)
    later = await store.append(begun, [said("help")])
    await refused(_begin(store, session, sent, event), StaleWriter)
    await store.leases.release(later)
    await refused(_begin(store, session, sent, event), StaleWriter)
    assert (await opened(store, key)).revision == later.revision


async def a_busy_begin_made_again_waits_once(store: SessionStore) -> None:
    """A34"""
    key = fresh_key()
    begun = await _begin(store, await store.create(key), message(), asked())
    waiting = message()
    for _ in range(2):
        await refused(_begin(store, begun, waiting, asked(), OTHER_LEASE), SessionBusy)
    assert (await opened(store, key)).queued == 1


async def a_begin_made_again_lasts_from_then(store: SessionStore) -> None:
    """A33: the lease may have expired while the outcome was unknown."""
    key = fresh_key()
    session, sent, event = await store.create(key), message(), asked()
    begun = await _begin(store, session, sent, event, SHORT)
    await asyncio.sleep(SHORT_IS_OVER)
    assert await store.leases.due(key.app) == [key]
    again = await _begin(store, session, sent, event, LEASE)
    assert again == begun
    assert await store.leases.due(key.app) == []
    await refused(store.take(again, OTHER_LEASE, []), SessionBusy)


async def a_take_made_again_is_the_same(store: SessionStore) -> None:
    """A34: even if it hid events, but only by the same holder and if nothing was written after it."""
    key = fresh_key()
    session = await told(store, key, "i-1", "i-2")
    events = [rewinds(3, "i-2"), writes({"a": 1, "app:b": 2})]
    taken = await store.take(session, LEASE, events)
    assert await store.take(session, LEASE, events) == taken
    assert await check_fold(store, key) == taken
    assert len(await store.events(key, hidden=True)) == 6
    await refused(store.take(session, OTHER_LEASE, events), SessionBusy)
    await refused(store.take(session, LEASE, [said("help")]), StaleWriter)
    await refused(store.take(session, LEASE, []), StaleWriter)
    await store.append(taken, [said("help")])
    await refused(store.take(session, LEASE, events), StaleWriter)


async def a_take_with_release_made_again_is_the_same(store: SessionStore) -> None:
    """A34: and gives no access to the lease of the next holder."""
    key = fresh_key()
    session = await told(store, key, "i-1")
    events = [said("help", "over")]
    given_up = await store.take(session, LEASE, events, release=True)
    assert await store.take(session, LEASE, events, release=True) == given_up
    others = await _begin(store, given_up, message(), asked(), OTHER_LEASE)
    again = await store.take(session, LEASE, events, release=True)
    await refused(store.append(again, [said("help", "late")]), StaleWriter)
    await store.leases.release(again)
    await store.leases.renew(others, OTHER_LEASE)
    assert await texts(store, key) == ["hello", "hi", "over", "hello"]


async def a_take_whose_events_are_there_takes_no_other_lease(store: SessionStore) -> None:
    """A33, A34: nor a lease given out in between with the epoch that this take would have got."""
    key = fresh_key()
    event = said("help", "stored")
    stored = await store.append(await store.create(key), [event])
    others = await _begin(store, stored, message(), asked(), OTHER_LEASE)
    again = await store.take(stored, LEASE, [event], release=True)
    await refused(store.append(again, [said("help", "late")]), StaleWriter)
    await refused(store.take(stored, LEASE, [event]), SessionBusy)
    await store.leases.renew(others, OTHER_LEASE)
    await store.append(others, [ended()], release=True)


async def an_append_made_again_gives_no_other_lease(store: SessionStore) -> None:
    """A33, A34: the events that a dead holder stored are found, and its next calls are refused."""
    key = fresh_key()
    dead = await _begin(store, await store.create(key), message(), asked(), SHORT)
    event = said("help", "stored")
    after = await store.append(dead, [event])
    repeated = await store.append(dead, [event])
    assert repeated.replace(holder=after.holder) == after, "the lease may be over by now"
    await asyncio.sleep(SHORT_IS_OVER)
    taken = await store.take(after, OTHER_LEASE, [said("help", "taken")])
    for release in (False, True):
        again = await store.append(dead, [event], release=release)
        assert again.epoch == dead.epoch
        await refused(store.append(again, [said("help", "late")]), StaleWriter)
        await refused(store.take(again, LEASE, [said("help", "late")]), SessionBusy)
        await refused(store.leases.renew(again, SHORT), StaleWriter)
        await store.leases.release(again)
    await store.leases.renew(taken, OTHER_LEASE)
    assert await texts(store, key) == ["hello", "stored", "taken"]


async def an_append_made_again_tells_what_waits(store: SessionStore) -> None:
    """A32: including messages accepted since."""
    key = fresh_key()
    begun = await _begin(store, await store.create(key), message(), asked())
    last = ended()
    assert (await store.append(begun, [last], release=True)).queued == 0
    await store.inbox.accept(key, message(), create=False, limit=9)
    again = await store.append(begun, [last], release=True)
    assert (again.queued, again.held) == (1, False)


CASES: tuple[Case, ...] = (
    a_begin_made_again_is_the_same,
    a_begin_made_again_late_is_refused,
    a_busy_begin_made_again_waits_once,
    a_begin_made_again_lasts_from_then,
    a_take_made_again_is_the_same,
    a_take_with_release_made_again_is_the_same,
    a_take_whose_events_are_there_takes_no_other_lease,
    an_append_made_again_gives_no_other_lease,
    an_append_made_again_tells_what_waits,
)
