"""Rewind and fork (behaviour A44)."""

from turnwise.facts.errors import InvocationMissing, SessionExists, SessionMissing, StaleWriter
from turnwise.facts.events import Await
from turnwise.facts.sessions import Session
from turnwise.ports.stores import SessionStore
from turnwise.testing.session_store_cases.making import (
    LEASE,
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


async def a_rewind_hides_and_keeps(store: SessionStore) -> None:
    """A44"""
    key = fresh_key()
    session = await told(store, key, "i-1", "i-2", "i-3")
    after = await store.append(session, [rewinds(3, "i-2")])
    assert [event.sequence for event in await store.events(key)] == [1, 2, 7]
    assert [event.sequence for event in await store.events(key, hidden=True)] == [1, 2, 3, 4, 5, 6, 7]
    assert [event.sequence for event in await store.events(key, last=2)] == [2, 7]
    assert [event.sequence for event in await store.events(key, after=1, limit=2)] == [2, 7]
    assert await store.events(key, invocation_id="i-2") == []
    assert len(await store.events(key, invocation_id="i-2", hidden=True)) == 2
    assert (after.revision, after.last_sequence, after.head.turns) == (session.revision + 1, 7, 1)
    assert await check_fold(store, key) == after


async def a_rewind_takes_head_and_state_back(store: SessionStore) -> None:
    """A44, A24: the earlier state is restored exactly; shared state stays."""
    key = fresh_key()
    initial = {"given": 1, "changed": 1}
    session = await store.create(key, state={**initial, "user:u": 1})
    session = await store.append(session, [asked(agent="a"), ended("a", "first", state_delta={"one": 1, "changed": 2})])
    before = session
    delta = {"one": 2, "two": 2, "given": None, "user:u": 2, "app:a": 2}
    session = await store.append(session, [asked(agent="b", invocation="i-2"), said("b", "second", state_delta=delta)])
    assert session.head.active_agent == "b"
    session = await store.append(session, [rewinds(3, "i-2")])
    assert session.state == before.state == {"given": 1, "changed": 2, "one": 1}
    assert (session.user_state, session.app_state) == ({"u": 2}, {"a": 2})
    assert session.head.replace(turns=0) == before.head.replace(turns=0)
    assert await store.open(key) == session
    session = await store.append(session, [rewinds(1, "i-1")])
    assert (session.state, session.head.authors) == (initial, {})
    assert await check_fold(store, key, initial) == session


async def a_rewind_is_gone_on_from(store: SessionStore) -> None:
    """A44: an answer is repeated in one transaction with the rewind."""
    key = fresh_key()
    session = await told(store, key, "i-1", "i-2")
    events = [rewinds(3, "i-2"), asked("again", invocation="i-3", state_delta={"n": 1})]
    begun = await store.begin(session, LEASE, message(), events, queue_limit=None)
    assert (begun.epoch, begun.last_sequence, begun.state) == (session.epoch + 1, 6, {"n": 1})
    assert list(begun.head.invocations) == ["i-3"]
    over = await store.append(begun, [ended("help", "better", invocation="i-3")], release=True)
    assert await texts(store, key) == ["hello", "hi", "", "again", "better"]
    assert await check_fold(store, key) == over
    assert [d.invocation_id for d in (await store.decisions.search(key.app)).items] == ["i-3", "i-2", "i-1"]


async def a_rewind_hides_earlier_rewinds_and_its_own_append(store: SessionStore) -> None:
    """A44"""
    key = fresh_key()
    session = await told(store, key, "i-1", "i-2", "i-3")
    session = await store.append(session, [rewinds(5, "i-3"), said("help", "after")])
    lost = writes({"lost": 1})
    session = await store.append(session, [lost, rewinds(3, "i-2"), writes({"kept": 1, "app:kept": 1})])
    assert [event.sequence for event in await store.events(key)] == [1, 2, 10, 11]
    assert len(await store.events(key, hidden=True)) == 11
    assert (session.state, session.app_state) == ({"kept": 1}, {"kept": 1})
    assert await check_fold(store, key) == session


async def a_stale_rewind_hides_nothing(store: SessionStore) -> None:
    """A33, A34"""
    key = fresh_key()
    old = await told(store, key, "i-1")
    current = await told(store, key, "i-2")
    event = rewinds(1)
    await refused(store.append(old, [event]), StaleWriter)
    assert len(await store.events(key)) == 4
    rewound = await store.append(current, [event])
    later = await store.append(rewound, [said("help", "later")])
    assert await store.append(current, [event]) == later
    assert await texts(store, key) == ["", "later"]


async def a_long_log_is_rewound(store: SessionStore) -> None:
    """A44"""
    key = fresh_key()
    session = await store.create(key, state={"n": -1})
    for block in range(3):
        session = await store.append(session, [writes({"n": n}) for n in range(block * 400, block * 400 + 400)])
    session = await store.append(session, [rewinds(1101)])
    assert session.state == {"n": 1099}
    assert await check_fold(store, key, {"n": -1}) == session


async def a_fork_copies_the_visible_log(store: SessionStore) -> None:
    """A44: with the events' numbers and their decisions, and independent from then on."""
    key = fresh_key()
    session = await store.create(key, state={"given": 1, "user:u": 1})
    session = await store.append(session, [asked("a"), ended(text="A", state_delta={"n": 1})])
    session = await store.append(session, [asked("b", invocation="i-2"), ended(invocation="i-2")])
    session = await store.append(session, [rewinds(3, "i-2")])
    session = await store.append(session, [asked("c", invocation="i-3"), ended(text="C", invocation="i-3")])
    copy = await store.fork(key, "copy")
    assert copy.key == key._replace(id="copy")
    assert (copy.last_sequence, copy.state, copy.user_state) == (7, {"given": 1, "n": 1}, {"u": 1})
    assert copy.head.turns == 2
    events = await store.events(copy.key, hidden=True)
    assert [(event.sequence, event.text) for event in events] == [(1, "a"), (2, "A"), (5, ""), (6, "c"), (7, "C")]
    assert [d.sequence for d in (await store.decisions.search(key.app, key=copy.key)).items] == [6, 1]
    assert await check_fold(store, copy.key, {"given": 1}) == copy
    further = await store.append(copy, [said("help", "D"), rewinds(3)])
    assert further.state == {"given": 1, "n": 1}
    assert await store.open(key) == session
    await store.delete(key)
    assert await texts(store, copy.key) == ["a", "A", ""]


async def a_fork_before_an_invocation(store: SessionStore) -> None:
    """A44"""
    key = fresh_key()
    await told(store, key, "i-1", "i-2", "i-3")
    copy = await store.fork(key, "copy", before_invocation="i-2")
    assert [event.invocation_id for event in await store.events(copy.key)] == ["i-1", "i-1"]
    assert await check_fold(store, copy.key) == copy
    empty = await store.fork(key, "empty", before_invocation="i-1")
    assert (empty.last_sequence, empty.head.turns) == (0, 0)
    assert [d.invocation_id for d in (await store.decisions.search(key.app, key=copy.key)).items] == ["i-1"]


async def open_invocations_stay_behind(store: SessionStore) -> None:
    """A44, A42: with their events, so that every call in the copy has its result; also invocations that ended only later."""
    key = fresh_key()
    session = await told(store, key, "i-1")
    session = await store.append(session, [asked("pay", invocation="i-2")])
    session = await store.append(session, [said("help", "sure?", invocation="i-2", awaits=Await(id="w-1"))])
    session = await told(store, key, "i-3")
    copy = await store.fork(key, "copy")
    assert (copy.head.invocations, copy.head.waiting()) == ({}, ())
    assert [event.invocation_id for event in await store.events(copy.key)] == ["i-1", "i-1", "i-3", "i-3"]
    assert await check_fold(store, copy.key) == copy
    session = await store.append(session, [said("user", "yes", invocation="i-2", answers="w-1"), ended(invocation="i-2")])
    earlier = await store.fork(key, "earlier", before_invocation="i-3")
    assert [event.invocation_id for event in await store.events(earlier.key)] == ["i-1", "i-1"]
    assert await check_fold(store, earlier.key) == earlier
    whole = await store.fork(key, "whole")
    assert whole.last_sequence == session.last_sequence == 8


async def a_fork_during_an_open_invocation_goes_on(store: SessionStore) -> None:
    """A44: the events of the fork follow the last one that it inherited."""
    key = fresh_key()
    session = await told(store, key, "i-1")
    await store.append(session, [asked("pay", invocation="i-2"), said("help", "sure?", invocation="i-2")])
    for id_ in ("copy", "copy of the copy"):
        copy = await store.fork(key, id_)
        after = await store.append(copy, [asked("more", invocation=id_), ended("help", "yes", invocation=id_)])
        assert [event.invocation_id for event in await store.events(copy.key)][-2:] == [id_, id_]
        assert after.last_sequence == copy.last_sequence + 2
        assert await check_fold(store, copy.key) == after
        await store.append(after, [asked("pay", invocation="i-2")])
        key = copy.key


async def a_deleted_user_may_come_back(store: SessionStore) -> None:
    """A44: sessions that were created after the deletion stay."""
    key = fresh_key()
    for number in range(3):
        await told(store, key._replace(id=f"old-{number}"), "i-1")
    await store.delete_user(key.app, key.user)
    await told(store, key, "i-1")
    while await store.maintenance.finish_deletions():
        continue
    assert [info.key for info in (await store.list(key.app)).items] == [key]
    assert len(await store.events(key)) == 2


async def a_fork_that_cannot_be(store: SessionStore) -> None:
    """A44"""
    key = fresh_key()
    session = await told(store, key, "i-1", "i-2")
    await store.append(session, [rewinds(3, "i-2")])
    await store.create(key._replace(id="taken"))
    await refused(store.fork(key, "taken"), SessionExists)
    await refused(store.fork(key, key.id), SessionExists)
    await refused(store.fork(fresh_key(), "copy"), SessionMissing)
    await refused(store.fork(key, "copy", before_invocation="i-9"), InvocationMissing)
    await refused(store.fork(key, "copy", before_invocation="i-2"), InvocationMissing)
    assert [info.key.id for info in (await store.list(key.app)).items] == ["session-1", "taken"]


async def a_fork_can_go_on(store: SessionStore) -> None:
    """A44: like any other session, with a separate inbox."""
    key = fresh_key()
    sent = message()
    begun = await store.begin(await store.create(key), LEASE, sent, [asked()], queue_limit=None)
    await store.append(begun, [ended(text="hi")])
    copy = await store.fork(key, "copy")
    assert await store.inbox.receipt(copy.key, sent.id) is None
    again: Session = await store.begin(copy, LEASE, sent, [asked("more", invocation="i-2")], queue_limit=None)
    await store.append(again, [ended(invocation="i-2")], release=True)
    assert await texts(store, copy.key) == ["hello", "hi", "more", ""]
    assert (await opened(store, key)).last_sequence == 2
    await check_fold(store, copy.key)


CASES: tuple[Case, ...] = (
    a_rewind_hides_and_keeps,
    a_rewind_takes_head_and_state_back,
    a_rewind_is_gone_on_from,
    a_rewind_hides_earlier_rewinds_and_its_own_append,
    a_stale_rewind_hides_nothing,
    a_long_log_is_rewound,
    a_fork_copies_the_visible_log,
    a_fork_before_an_invocation,
    open_invocations_stay_behind,
    a_fork_during_an_open_invocation_goes_on,
    a_deleted_user_may_come_back,
    a_fork_that_cannot_be,
    a_fork_can_go_on,
)
