"""One writer per session: begin, lease, epoch (behaviours A32, A33)."""

import asyncio

from turnwise.facts.errors import QueueFull, SessionBusy, SessionMissing, StaleWriter
from turnwise.facts.events import End
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


async def begin_stores_a_blank_session(store: SessionStore) -> None:
    """A32"""
    key = fresh_key()
    blank = await store.open(key, blank=True)
    assert blank is not None
    first = message("hi")
    begun = await store.begin(blank, LEASE, first, [asked("hi", state_delta={"a": 1, "app:b": 2})], queue_limit=9)
    assert (begun.epoch, begun.last_sequence, begun.state, begun.app_state) == (1, 1, {"a": 1}, {"b": 2})
    assert begun.revision > blank.revision
    assert await check_fold(store, key) == begun
    receipt = await store.inbox.receipt(key, first.id)
    assert receipt is not None
    assert (receipt.state, receipt.invocation_id, receipt.message) == ("started", "i-1", first)
    assert await store.inbox.queued(key) is None


async def begin_goes_on_with_a_session(store: SessionStore) -> None:
    """A32"""
    key = fresh_key()
    before = await told(store, key, "i-1")
    begun = await store.begin(before, LEASE, message(), [asked(invocation="i-2", state_delta={"a": 1})], queue_limit=None)
    assert (begun.epoch, begun.revision, begun.last_sequence) == (before.epoch + 1, before.revision + 1, 3)
    assert begun.state == {"a": 1}
    assert await check_fold(store, key) == begun
    over = await store.append(begun, [ended(invocation="i-2")], release=True)
    assert (over.epoch, over.revision) == (begun.epoch, begun.revision + 1)


async def the_message_starts_the_users_invocation(store: SessionStore) -> None:
    """A32: events that end older invocations may come before the user's."""
    key = fresh_key()
    before = await store.append(await store.create(key), [asked(invocation="i-old")])
    sent = message()
    lapse = said("help", invocation="i-old", end=End(reason="limit:wait_seconds"))
    await store.begin(before, LEASE, sent, [lapse, asked(invocation="i-new")], queue_limit=None)
    receipt = await store.inbox.receipt(key, sent.id)
    assert receipt is not None
    assert receipt.invocation_id == "i-new"


async def a_held_session_is_busy(store: SessionStore) -> None:
    """A32: the message is queued in the inbox if there is room."""
    key = fresh_key()
    begun = await _begun(store, await store.create(key), LEASE)
    seen = await opened(store, key)
    one, two, three = message("one"), message("two"), message("three")
    await refused(store.begin(seen, OTHER_LEASE, one, [asked()], queue_limit=None), SessionBusy)
    assert await store.inbox.receipt(key, one.id) is None
    await refused(store.begin(seen, OTHER_LEASE, two, [asked()], queue_limit=1), SessionBusy)
    await refused(store.begin(seen, OTHER_LEASE, two, [asked()], queue_limit=1), SessionBusy)
    await refused(store.begin(seen, OTHER_LEASE, three, [asked()], queue_limit=1), QueueFull)
    assert await store.inbox.receipt(key, three.id) is None
    assert await store.inbox.queued(key) == two
    assert await store.open(key) == begun.replace(queued=1)


async def busy_does_not_ask_how_old_the_token_is(store: SessionStore) -> None:
    """A32: otherwise a message could be lost between reading and begin."""
    key = fresh_key()
    blank = await store.open(key, blank=True)
    assert blank is not None
    await _begun(store, blank, LEASE)
    late = message("late")
    await refused(store.begin(blank, OTHER_LEASE, late, [asked()], queue_limit=5), SessionBusy)
    assert await store.inbox.queued(key) == late


async def a_released_session_is_free(store: SessionStore) -> None:
    """A32"""
    key = fresh_key()
    begun = await _begun(store, await store.create(key), LEASE)
    over = await store.append(begun, [ended()], release=True)
    taken = await _begun(store, over, OTHER_LEASE)
    await store.leases.release(taken)
    await store.leases.release(taken)
    again = await _begun(store, taken, LEASE)
    assert again.epoch == 3


async def a_repeated_last_append_releases_too(store: SessionStore) -> None:
    """A34: if the first response was lost, or the first call had no release."""
    key = fresh_key()
    begun = await _begun(store, await store.create(key), LEASE)
    last = ended()
    after = await store.append(begun, [last])
    assert await store.append(begun, [last], release=True) == after.replace(holder=None)
    await _begun(store, after, OTHER_LEASE)


async def the_holder_may_begin_again(store: SessionStore) -> None:
    """A32"""
    key = fresh_key()
    begun = await _begun(store, await store.create(key), LEASE)
    again = await _begun(store, begun, LEASE)
    assert again.epoch == 2
    await refused(store.append(begun, [said("help")]), StaleWriter)


async def a_session_says_whether_it_is_held(store: SessionStore) -> None:
    """A32: as of the time it was read, by the store's clock."""
    key = fresh_key()
    created = await store.create(key)
    begun = await _begun(store, created, LEASE)
    later = await store.append(begun, [said("help")])
    assert (created.held, begun.held, later.held, (await opened(store, key)).held) == (False, True, True, True)
    assert {begun.holder, later.holder, (await opened(store, key)).holder} == {LEASE.holder}
    over = await store.append(later, [ended()], release=True)
    assert (over.held, (await opened(store, key)).held) == (False, False)
    short = await _begun(store, over, SHORT)
    await asyncio.sleep(SHORT_IS_OVER)
    assert (short.held, (await opened(store, key)).held) == (True, False)
    assert not (await store.fork(key, "copy")).held


async def an_expired_lease_can_be_taken(store: SessionStore) -> None:
    """A33: by the store's clock. All later calls of a paused holder are refused."""
    key = fresh_key()
    paused = await _begun(store, await store.create(key), SHORT)
    await asyncio.sleep(SHORT_IS_OVER)
    seen = await opened(store, key)
    assert seen.epoch == paused.epoch
    taken = await _begun(store, seen, OTHER_LEASE)
    assert taken.epoch == paused.epoch + 1
    await refused(store.append(paused, [said("help", "late")]), StaleWriter)
    await refused(store.leases.renew(paused, SHORT), StaleWriter)
    await store.leases.release(paused)
    await refused(store.begin(seen, LEASE, message(), [asked()], queue_limit=None), SessionBusy)
    assert "late" not in await texts(store, key)
    assert await store.append(taken, [said("help", "on time")])


async def an_expired_lease_that_nobody_took_still_writes(store: SessionStore) -> None:
    """A33"""
    key = fresh_key()
    slow = await _begun(store, await store.create(key), SHORT)
    await asyncio.sleep(SHORT_IS_OVER)
    await store.leases.renew(slow, LEASE)
    await refused(store.begin(slow, OTHER_LEASE, message(), [asked()], queue_limit=None), SessionBusy)
    await store.append(slow, [ended()])


async def a_renewed_lease_lasts(store: SessionStore) -> None:
    """A33: also across appends, which it does not disturb."""
    key = fresh_key()
    begun = await _begun(store, await store.create(key), SHORT)
    await store.leases.renew(begun, LEASE)
    later = await store.append(begun, [said("help")])
    await store.leases.renew(begun, LEASE)
    await asyncio.sleep(SHORT_IS_OVER)
    await refused(store.begin(later, OTHER_LEASE, message(), [asked()], queue_limit=None), SessionBusy)
    await refused(store.leases.renew(later, OTHER_LEASE), StaleWriter)
    over = await store.append(later, [ended()], release=True)
    await refused(store.leases.renew(over, LEASE), StaleWriter)


async def a_stale_begin_stores_nothing(store: SessionStore) -> None:
    """A33"""
    key = fresh_key()
    blank = await store.open(key, blank=True)
    assert blank is not None
    old = await store.create(key, state={"a": 1})
    current = await told(store, key, "i-1")
    sent = message()
    for token in (old, blank, current.replace(epoch=5)):
        await refused(store.begin(token, LEASE, sent, [asked(state_delta={"app:x": 1})], queue_limit=9), StaleWriter)
    assert await store.inbox.receipt(key, sent.id) is None
    assert await store.open(key) == current
    await store.delete(key)
    await refused(store.begin(current, LEASE, sent, [asked()], queue_limit=9), SessionMissing)


async def a_message_is_begun_once(store: SessionStore) -> None:
    """A34"""
    key = fresh_key()
    sent = message()
    begun = await _begun(store, await store.create(key), LEASE, sent)
    await refused(store.begin(begun, LEASE, sent, [asked(invocation="i-2")], queue_limit=9), StaleWriter)
    over = await store.append(begun, [ended()], release=True)
    await refused(store.begin(over, LEASE, sent, [asked(invocation="i-2")], queue_limit=9), StaleWriter)
    await store.inbox.accept(key, message("other", "m-2"), create=False, limit=9)
    await refused(store.begin(over, LEASE, sent, [asked(invocation="i-2")], queue_limit=9), StaleWriter)
    await store.inbox.refuse(key, "m-2", "blocked")
    await refused(store.begin(over, LEASE, message("other", "m-2"), [asked()], queue_limit=9), StaleWriter)
    assert await store.open(key) == over
    assert await store.inbox.queued(key) is None


async def an_event_is_begun_once(store: SessionStore) -> None:
    """A34"""
    key = fresh_key()
    event = asked()
    over = await store.append(await store.create(key), [event])
    sent = message()
    await refused(store.begin(over, LEASE, sent, [event], queue_limit=9), StaleWriter)
    assert await store.inbox.receipt(key, sent.id) is None
    assert await store.open(key) == over


async def older_messages_go_first(store: SessionStore) -> None:
    """A32"""
    key = fresh_key()
    session = await store.create(key)
    old, new = message("old"), message("new")
    await store.inbox.accept(key, old, create=False, limit=9)
    await refused(store.begin(session, LEASE, new, [asked("new")], queue_limit=9), SessionBusy)
    assert await store.inbox.queued(key) == old
    for sent, token in ((old, session), (new, None)):
        current = token or await opened(store, key)
        begun = await store.begin(current, LEASE, sent, [asked(sent.content.text)], queue_limit=9)
        await store.append(begun, [ended()], release=True)
    assert [text for text in await texts(store, key) if text] == ["old", "new"]
    assert await store.inbox.queued(key) is None


async def the_inbox_of_a_dead_holder_is_served(store: SessionStore) -> None:
    """A32: messages that were queued while it lived are started once its lease has expired."""
    key = fresh_key()
    await _begun(store, await store.create(key), SHORT)
    waiting = message("waiting")
    await store.inbox.accept(key, waiting, create=False, limit=9)
    await asyncio.sleep(SHORT_IS_OVER)
    late = message("late")
    seen = await opened(store, key)
    await refused(store.begin(seen, OTHER_LEASE, late, [asked("late")], queue_limit=9), SessionBusy)
    begun = await store.begin(seen, OTHER_LEASE, waiting, [asked("waiting", invocation="i-2")], queue_limit=9)
    assert begun.epoch == seen.epoch + 1
    await refused(store.begin(begun, LEASE, late, [asked("late")], queue_limit=9), SessionBusy)
    assert await store.inbox.queued(key) == late


async def twenty_at_once_on_one_session(store: SessionStore) -> None:
    """A32: one starts, the others wait and are answered in the order of their acceptance."""
    key = fresh_key()
    blank = await store.open(key, blank=True)
    assert blank is not None
    sent = [message(str(n)) for n in range(20)]
    results = await at_once(
        store.begin(blank, Lease(f"holder-{n}", 60.0), m, [asked(m.content.text, invocation=m.id)], queue_limit=20)
        for n, m in enumerate(sent)
    )
    assert [type(error) for error in lost(results)] == [SessionBusy] * 19
    (session,) = won(results)
    order = []
    while True:
        (*_, user) = await store.events(key)
        order.append(user.text)
        session = await store.append(session, [ended("help", invocation=user.invocation_id)], release=True)
        queued = await store.inbox.queued(key)
        if queued is None:
            break
        event = asked(queued.content.text, invocation=queued.id)
        session = await store.begin(session, LEASE, queued, [event], queue_limit=20)
    assert sorted(order, key=int) == [str(n) for n in range(20)]
    assert [text for text in await texts(store, key) if text] == order
    for m in sent:
        receipt = await store.inbox.receipt(key, m.id)
        assert receipt is not None
        assert (receipt.state, receipt.invocation_id) == ("started", m.id)
    await check_fold(store, key)


async def _begun(store: SessionStore, session: Session, lease: Lease, sent: Message | None = None) -> Session:
    return await store.begin(session, lease, sent or message(), [asked()], queue_limit=None)


CASES: tuple[Case, ...] = (
    begin_stores_a_blank_session,
    begin_goes_on_with_a_session,
    the_message_starts_the_users_invocation,
    a_held_session_is_busy,
    busy_does_not_ask_how_old_the_token_is,
    a_released_session_is_free,
    a_repeated_last_append_releases_too,
    the_holder_may_begin_again,
    a_session_says_whether_it_is_held,
    an_expired_lease_can_be_taken,
    an_expired_lease_that_nobody_took_still_writes,
    a_renewed_lease_lasts,
    a_stale_begin_stores_nothing,
    a_message_is_begun_once,
    an_event_is_begun_once,
    older_messages_go_first,
    the_inbox_of_a_dead_holder_is_served,
    twenty_at_once_on_one_session,
)
