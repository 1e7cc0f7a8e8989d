"""Recovery of sessions whose holder died: `take`, `due` and `stop` (behaviours A23, A32, A33, E7)."""

from datetime import datetime, timedelta
from typing import Any

from turnwise.facts.errors import SessionBusy, SessionMissing, StaleWriter
from turnwise.facts.events import Await, Event, Rewind
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.stores import Lease, SessionStore
from turnwise.testing.session_store_cases.making import (
    DYING,
    LEASE,
    NOW,
    OTHER_LEASE,
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
    rewinds,
    said,
    texts,
    told,
    won,
    writes,
)


def tried_again(from_sequence: int, attempt: int = 2, **actions: Any) -> Event:
    """The event that starts a new attempt of `i-1` and hides the events of the last one."""
    rewind = Rewind(from_sequence=from_sequence, invocation_id="i-1")
    return said("help", rewind=rewind, **actions).replace(attempt=attempt)


async def a_free_session_can_be_taken(store: SessionStore) -> None:
    """A32: also without a message."""
    key = fresh_key()
    session = await told(store, key, "i-1")
    taken = await store.take(session, LEASE, [said("help", "more", state_delta={"a": 1, "app:b": 2})])
    assert (taken.epoch, taken.revision, taken.last_sequence) == (session.epoch + 1, session.revision + 1, 3)
    assert (taken.held, taken.state, taken.app_state) == (True, {"a": 1}, {"b": 2})
    assert await check_fold(store, key) == taken
    await refused(store.begin(taken, OTHER_LEASE, message(), [asked()], queue_limit=None), SessionBusy)
    await refused(store.append(session, [said("help")]), StaleWriter)
    await store.leases.check(taken)
    over = await store.append(taken, [ended()], release=True)
    assert (over.epoch, over.held) == (taken.epoch, False)


async def nothing_need_be_appended(store: SessionStore) -> None:
    """A32: `take` without events suffices to exclude other holders, or to release a dead holder's session."""
    key = fresh_key()
    begun = await store.begin(await store.create(key), DYING, message(), [ended()], queue_limit=None)
    await store.leases.leave(DYING.holder)
    assert await store.leases.due(key.app) == [key]
    taken = await store.take(begun, OTHER_LEASE, [])
    assert (taken.epoch, taken.revision, taken.last_sequence) == (begun.epoch + 1, begun.revision + 1, 1)
    await refused(store.take(taken, LEASE, []), SessionBusy)
    given_up = await store.take(taken, OTHER_LEASE, [], release=True)
    assert (given_up.epoch, given_up.held) == (taken.epoch + 1, False)
    assert await store.open(key) == given_up
    assert await store.leases.due(key.app) == []


async def what_somebody_holds_cannot_be_taken(store: SessionStore) -> None:
    """A33: and nothing is stored."""
    key = fresh_key()
    begun = await store.begin(await store.create(key), LEASE, message(), [asked()], queue_limit=None)
    for release in (False, True):
        events = [tried_again(1, state_delta={"a": 1, "app:a": 1})]
        await refused(store.take(begun, OTHER_LEASE, events, release=release), SessionBusy)
    assert await store.open(key) == begun
    assert await texts(store, key) == ["hello"]
    await store.append(begun, [ended()])


async def a_stale_take_stores_nothing(store: SessionStore) -> None:
    """A33"""
    key = fresh_key()
    old = await store.create(key)
    current = await told(store, key, "i-1")
    for token in (old, current.replace(epoch=5), current.replace(revision=99)):
        for release in (False, True):
            await refused(store.take(token, LEASE, [writes({"app:x": 1})], release=release), StaleWriter)
            await refused(store.take(token, LEASE, [], release=release), StaleWriter)
    assert await store.open(key) == current
    await store.delete(key)
    await refused(store.take(current, LEASE, [said("help")]), SessionMissing)
    await refused(store.take(current, LEASE, [rewinds(1)]), SessionMissing)


async def a_dead_attempt_is_taken_back(store: SessionStore) -> None:
    """A33, E7: its events are hidden, head and state are restored, and the dead holder's calls are refused."""
    key = fresh_key()
    initial = {"given": 1}
    session = await store.create(key, state={**initial})
    dead = await store.begin(session, DYING, message(), [asked(state_delta={"asked": 1})], queue_limit=None)
    delta = {"given": None, "half": 1, "app:kept": 1}
    dead = await store.append(dead, [said("help", "half", state_delta=delta), said("sales", "a word")])
    assert dead.head.active_agent == "sales"
    await store.leases.leave(DYING.holder)
    seen = await opened(store, key)
    since = seen.head.invocations["i-1"].since
    assert (since, seen.held) == (1, False)
    taken = await store.take(seen, OTHER_LEASE, [tried_again(since + 1, state_delta={"again": 1})])
    assert (taken.state, taken.app_state) == ({"given": 1, "asked": 1, "again": 1}, {"kept": 1})
    assert (taken.epoch, taken.last_sequence, taken.head.active_agent, taken.held) == (dead.epoch + 1, 4, None, True)
    open_ = taken.head.invocations["i-1"]
    assert (open_.attempt, open_.since, open_.last, open_.agent) == (2, 1, 4, "help")
    assert [event.sequence for event in await store.events(key)] == [1, 4]
    assert [event.sequence for event in await store.events(key, hidden=True)] == [1, 2, 3, 4]
    assert await check_fold(store, key, initial) == taken
    await refused(store.append(dead, [ended(text="late")], release=True), StaleWriter)
    await refused(store.leases.check(dead), StaleWriter)
    await store.leases.release(dead)
    assert await store.append(taken, [ended(text="in time")], release=True)
    assert await texts(store, key) == ["hello", "", "in time"]


async def an_attempt_that_left_nothing(store: SessionStore) -> None:
    """E7: there is nothing to hide, and nothing is lost."""
    key = fresh_key()
    begun = await store.begin(await told(store, key, "i-0"), DYING, message(), [asked(state_delta={"a": 1})], queue_limit=None)
    await store.leases.leave(DYING.holder)
    taken = await store.take(begun, OTHER_LEASE, [tried_again(begun.last_sequence + 1, state_delta={"b": 2, "app:c": 3})])
    assert (taken.state, taken.app_state, taken.head.turns) == ({"a": 1, "b": 2}, {"c": 3}, begun.head.turns)
    assert [event.sequence for event in await store.events(key)] == [1, 2, 3, 4]
    lost_ = [writes({"lost": 1, "app:lost": 1}), tried_again(begun.last_sequence + 2, 3), writes({"d": 4})]
    later = await store.append(taken, lost_)
    assert [event.sequence for event in await store.events(key)] == [1, 2, 3, 4, 6, 7]
    assert (later.state, later.app_state) == ({"a": 1, "b": 2, "d": 4}, {"c": 3, "lost": 1})
    assert await check_fold(store, key) == later


async def a_session_is_taken_and_given_up_at_once(store: SessionStore) -> None:
    """A32: as after the last allowed attempt of an invocation."""
    key = fresh_key()
    begun = await store.begin(await store.create(key), DYING, message(), [asked()], queue_limit=None)
    await store.append(begun, [said("help", "half")])
    await store.leases.leave(DYING.holder)
    over = await store.take(await opened(store, key), OTHER_LEASE, [tried_again(2), ended(text="no more")], release=True)
    assert (over.held, over.head.invocations) == (False, {})
    assert await check_fold(store, key) == over
    assert await texts(store, key) == ["hello", "", "no more"]
    assert await store.leases.due(key.app) == []
    assert await store.begin(over, LEASE, message(), [asked(invocation="i-2")], queue_limit=None)


async def stored_events_are_left_out_of_a_take(store: SessionStore) -> None:
    """A34: as in an append."""
    key = fresh_key()
    event, new = said("help", "stored"), said("help", "new")
    session = await store.append(await store.create(key), [event])
    taken = await store.take(session, LEASE, [event, new])
    assert (taken.epoch, taken.last_sequence) == (session.epoch + 1, 2)
    assert await texts(store, key) == ["stored", "new"]
    assert await check_fold(store, key) == taken


async def one_of_many_takes_it(store: SessionStore) -> None:
    """A33: among holders that recover and holders that have a message."""
    key = fresh_key()
    session = await told(store, key, "i-1")
    takes = (store.take(session, Lease(f"taker-{n}", 60.0), [said("help", str(n))]) for n in range(5))
    begins = (
        store.begin(session, Lease(f"beginner-{n}", 60.0), message(), [asked(f"b{n}")], queue_limit=None) for n in range(5)
    )
    results = await at_once([call for pair in zip(takes, begins, strict=True) for call in pair])
    assert [type(error) for error in lost(results)] == [SessionBusy] * 9
    (winner,) = won(results)
    assert await store.open(key) == winner
    assert len(await store.events(key)) == 3


async def _of(store: SessionStore, key: SessionKey, id_: str, lease: Lease) -> Session:
    blank = await store.open(key._replace(id=id_), blank=True)
    assert blank is not None
    return await store.begin(blank, lease, message(), [asked()], queue_limit=None)


async def due_is_what_nobody_holds_and_somebody_should(store: SessionStore) -> None:
    """A32, E7"""
    key = fresh_key()

    async def accept(id_: str) -> None:
        await store.inbox.accept(key._replace(id=id_), message(id_="m-1"), create=True, limit=9)

    assert await store.leases.due(key.app) == []
    await told(store, key._replace(id="done"), "i-1")
    await store.append(await _of(store, key, "answered", DYING), [ended()], release=True)
    await _of(store, key, "held", LEASE)
    await _of(store, key, "held and waiting", LEASE)
    await accept("held and waiting")
    await store.leases.release(await _of(store, key, "given up", DYING))
    await _of(store, key, "dead", DYING)
    await _of(store, key, "dead and waiting", DYING)
    await accept("dead and waiting")
    await accept("accepted")
    await store.append(await _of(store, key, "left", LEASE), [ended()])
    await accept("answered")
    await accept("refused")
    await store.inbox.refuse(key._replace(id="refused"), "m-1", "blocked")
    elsewhere = key._replace(app=key.app + "x")
    await store.inbox.accept(elsewhere, message(), create=True, limit=9)
    await store.leases.leave(DYING.holder)
    expected = {"dead", "dead and waiting", "accepted", "answered"}
    assert sorted(await store.leases.due(key.app)) == sorted(key._replace(id=id_) for id_ in expected)
    assert await store.leases.due(elsewhere.app) == [elsewhere]
    await store.delete(key._replace(id="dead"))
    assert len(await store.leases.due(key.app)) == 3


async def due_gives_no_more_than_was_asked_for(store: SessionStore) -> None:
    """A32"""
    key = fresh_key()
    keys = [key._replace(user=f"user-{n % 2}", id=str(n)) for n in range(5)]
    for each in keys:
        await store.inbox.accept(each, message(), create=True, limit=9)
    assert sorted(await store.leases.due(key.app, limit=5)) == sorted(await store.leases.due(key.app)) == sorted(keys)
    some = await store.leases.due(key.app, limit=2)
    assert len(set(some)) == 2
    assert set(some) < set(keys)
    await refused(store.leases.due(key.app, limit=0), ValueError)


async def what_was_taken_up_is_not_due(store: SessionStore) -> None:
    """A32: until its holder dies again."""
    key = fresh_key()
    dead = await _of(store, key, key.id, DYING)
    await store.leases.leave(DYING.holder)
    taken = await store.take(dead, OTHER_LEASE, [said("help")])
    assert await store.leases.due(key.app) == []
    await store.leases.leave(OTHER_LEASE.holder)
    assert await store.leases.due(key.app) == [key]
    await store.take(taken, LEASE, [said("help")])
    assert await store.leases.due(key.app) == []


async def a_wait_expires_at_its_time(store: SessionStore) -> None:
    """A34, A42: while no process holds the session; an answer or an end is in time."""
    key, soon, later = fresh_key(), NOW + timedelta(seconds=1), NOW + timedelta(seconds=2)
    leases = store.leases
    assert (await leases.expired(key.app, later), await leases.next_expiry(key.app, NOW)) == ([], None)
    waits = await _waiting(store, key, "soon", soon, later)
    for id_, times in (("later", (later,)), ("never", (None,)), ("one never", (soon, None))):
        await _waiting(store, key, id_, *times)
    assert await leases.expired(key.app, soon) == [], "an invocation ends with its last wait"
    found = await leases.next_expiry(key.app, NOW)
    assert found is not None
    assert (found[0].id in {"soon", "later"}, found[1]) == (True, later)
    assert {each.id for each in await leases.expired(key.app, later)} == {"soon", "later"}
    assert len(await leases.expired(key.app, later, limit=1)) == 1
    assert await leases.next_expiry(key.app, later) is None
    await refused(leases.expired(key.app, later, limit=0), ValueError)
    assert await leases.expired(key.app + "x", later) == []
    taken = await store.take(waits, LEASE, [asked("this", answers="w-0")])
    assert [each.id for each in await leases.expired(key.app, later)] == ["later"]
    await store.append(taken, [ended()], release=True)
    await store.delete(key._replace(id="later"))
    assert await leases.expired(key.app, later) == []


async def a_rewind_takes_back_when_a_wait_expires(store: SessionStore) -> None:
    """A34, A44"""
    key = fresh_key()
    waiting = await _waiting(store, key, key.id, NOW)
    assert await store.leases.expired(key.app, NOW) == [key]
    fork = await store.fork(key, "fork")
    assert fork.head.expires_at is None
    await store.append(waiting, [rewinds(1)])
    assert await store.leases.expired(key.app, NOW) == []


async def _waiting(store: SessionStore, key: SessionKey, id_: str, *expiries: datetime | None) -> Session:
    """A session with one invocation that has a wait for each of the times."""
    session = await store.create(key._replace(id=id_))
    waits = [said("help", awaits=Await(id=f"w-{number}", expires_at=at)) for number, at in enumerate(expiries)]
    return await store.append(session, [asked(), *waits])


async def a_stop_is_left_for_the_holder(store: SessionStore) -> None:
    """A23: and does not disturb it."""
    key, holder = fresh_key(), Lease(f"holder-of-{fresh_key().app}", 60.0)
    begun = await _of(store, key, key.id, holder)
    await _of(store, key, "other", holder)
    assert await store.leases.stops(holder.holder) == []
    assert begun.stop is None
    await store.leases.stop(key, "i-0")
    await store.leases.stop(key, "i-1")
    assert await store.leases.stops(holder.holder) == [(key, "i-1")]
    assert await store.leases.stops("somebody else") == []
    assert await store.open(key) == begun.replace(stop="i-1")
    later = await store.append(begun, [said("help")])
    await store.leases.check(begun)
    assert later.stop == "i-1"
    over = await store.append(later, [ended()], release=True)
    assert over.stop == "i-1"
    assert await store.leases.stops(holder.holder) == []
    await store.leases.stop(fresh_key(), "i-1")


async def a_begin_forgets_a_stop(store: SessionStore) -> None:
    """A23: the stop was for an earlier invocation."""
    key, holder = fresh_key(), Lease(f"holder-of-{fresh_key().app}", 60.0)
    begun = await _of(store, key, key.id, holder)
    waiting = message()
    for queued in (False, True):
        await store.leases.stop(key, "i-1")
        await store.append(begun, [ended()], release=True)
        if queued:
            await store.inbox.accept(key, waiting, create=False, limit=9)
        seen = await opened(store, key)
        assert seen.stop == "i-1"
        begun = await store.begin(seen, holder, waiting if queued else message(), [asked()], queue_limit=None)
        assert (begun.stop, (await opened(store, key)).stop) == (None, None)
        assert await store.leases.stops(holder.holder) == []


async def a_stop_of_what_is_over_is_no_stop(store: SessionStore) -> None:
    """A23: nor does it replace a stop of another invocation."""
    key, holder = fresh_key(), Lease(f"holder-of-{fresh_key().app}", 60.0)
    begun = await _of(store, key, key.id, holder)
    await store.leases.stop(key, "i-1")
    await store.leases.stop(key, "i-0")
    assert (await opened(store, key)).stop == "i-1"
    await store.append(begun, [ended()], release=True)
    begun = await store.begin(await opened(store, key), holder, message(), [asked()], queue_limit=None)
    await store.append(begun, [ended()])
    await store.leases.stop(key, "i-1")
    assert await store.leases.stops(holder.holder) == []


async def a_stop_outlives_the_holder(store: SessionStore) -> None:
    """A23: the next holder of the session finds it."""
    key, holder = fresh_key(), Lease(f"holder-of-{fresh_key().app}", 60.0)
    dead = await _of(store, key, key.id, DYING)
    await store.leases.stop(key, "i-1")
    await store.leases.leave(DYING.holder)
    taken = await store.take(dead, holder, [said("help")])
    assert taken.stop == "i-1"
    assert await store.leases.stops(holder.holder) == [(key, "i-1")]
    await store.delete(key)
    assert await store.leases.stops(holder.holder) == []


CASES: tuple[Case, ...] = (
    a_free_session_can_be_taken,
    nothing_need_be_appended,
    what_somebody_holds_cannot_be_taken,
    a_stale_take_stores_nothing,
    a_dead_attempt_is_taken_back,
    an_attempt_that_left_nothing,
    a_session_is_taken_and_given_up_at_once,
    stored_events_are_left_out_of_a_take,
    one_of_many_takes_it,
    due_is_what_nobody_holds_and_somebody_should,
    due_gives_no_more_than_was_asked_for,
    what_was_taken_up_is_not_due,
    a_wait_expires_at_its_time,
    a_rewind_takes_back_when_a_wait_expires,
    a_stop_is_left_for_the_holder,
    a_begin_forgets_a_stop,
    a_stop_of_what_is_over_is_no_stop,
    a_stop_outlives_the_holder,
)
