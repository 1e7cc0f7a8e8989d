"""Writes that expect a revision, and messages that compete for an id (behaviours A33, A34)."""

from collections.abc import Callable, Sequence
from itertools import permutations

from turnwise.facts.errors import SessionBusy, SessionMissing, StaleWriter
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.stores import Lease, SessionStore
from turnwise.testing.session_store_cases.making import (
    LEASE,
    OTHER_LEASE,
    Case,
    SharedCase,
    asked,
    at_once,
    ended,
    fresh_key,
    lost,
    message,
    opened,
    refused,
    said,
    told,
)


async def a_message_waits_only_at_its_revision(store: SessionStore) -> None:
    """A33: also when it begins at once, and when another one was accepted before it."""
    key = fresh_key()
    session = await told(store, key, "i-1")
    for revision in (session.revision - 1, session.revision + 1):
        await refused(store.inbox.accept(key, message(), create=True, limit=9, revision=revision), StaleWriter)
    held = await store.take(session, OTHER_LEASE, [asked(invocation="i-2")])
    late = store.begin(held, LEASE, message(), [asked()], queue_limit=9, new=True, revision=session.revision)
    await refused(late, StaleWriter)
    await refused(
        store.begin(held, LEASE, message("a", "a"), [asked()], queue_limit=9, new=True, revision=held.revision), SessionBusy
    )
    await refused(store.inbox.accept(key, message("b"), create=True, limit=9, revision=held.revision), StaleWriter)
    again = await store.inbox.accept(key, message("a", "a"), create=True, limit=9, revision=session.revision)
    assert (again.state, again.repeated) == ("queued", True)
    assert (await opened(store, key)).queued == 1


async def a_session_that_does_not_exist_has_no_revision(store: SessionStore) -> None:
    key = fresh_key()
    await refused(store.inbox.accept(key, message(), create=True, limit=9, revision=1), SessionMissing)
    await refused(store.delete(key, revision=1), SessionMissing)
    await refused(store.fork(key, "copy", revision=1), SessionMissing)
    assert await store.open(key) is None
    assert not await store.delete(key)


async def a_session_is_deleted_and_forked_at_its_revision(store: SessionStore) -> None:
    key = fresh_key()
    session = await told(store, key, "i-1")
    for revision in (session.revision - 1, session.revision + 1):
        await refused(store.delete(key, revision=revision), StaleWriter)
        await refused(store.fork(key, "copy", revision=revision), StaleWriter)
    assert await opened(store, key) == session
    copy = await store.fork(key, "copy", revision=session.revision)
    assert copy.last_sequence == session.last_sequence
    assert await store.delete(key, revision=session.revision)
    assert await store.open(key) is None


async def a_queued_message_is_a_change(store: SessionStore) -> None:
    """A33: whoever expects a revision did not know of it."""
    key = fresh_key()
    session = await told(store, key, "i-1")
    await store.inbox.accept(key, message(), create=False, limit=9)
    await refused(store.inbox.accept(key, message(), create=False, limit=9, revision=session.revision), StaleWriter)
    await refused(store.take(session, LEASE, [said("help")], release=True, empty_inbox=True), StaleWriter)
    await refused(store.fork(key, "copy", revision=session.revision), StaleWriter)
    await refused(store.delete(key, revision=session.revision), StaleWriter)
    current = await opened(store, key)
    assert (current.revision, current.epoch, current.queued) == (session.revision, session.epoch, 1)
    await store.take(session, LEASE, [said("help")], release=True)


async def a_queued_message_is_not_replaced(store: SessionStore) -> None:
    """A34: by another one with its id, whose sender does not know of it."""
    key = fresh_key()
    session, first = await told(store, key, "i-1"), message("first", "m")
    await store.inbox.accept(key, first, create=False, limit=9)
    for limit in (None, 9):
        begin = store.begin(session, LEASE, message("second", "m"), [asked("second")], queue_limit=limit, new=True)
        await refused(begin, SessionBusy)
    assert await store.inbox.queued(key) == first
    begun = await store.begin(await opened(store, key), LEASE, first, [asked("first", invocation="i-2")], queue_limit=9)
    assert begun.queued == 0


async def _begins(store: SessionStore, session: Session, number: int) -> None:
    lease = Lease(f"holder-{number}", 60.0)
    events = [asked(invocation=f"i-{number}")]
    begun = await store.begin(session, lease, message(), events, queue_limit=9, new=True, revision=session.revision)
    await store.append(begun, [ended(invocation=f"i-{number}")], release=True)


async def _queues(store: SessionStore, session: Session, _: int) -> None:
    await store.inbox.accept(session.key, message(), create=True, limit=9, revision=session.revision)


async def _appends(store: SessionStore, session: Session, number: int) -> None:
    await store.take(session, Lease(f"holder-{number}", 60.0), [said("help")], release=True, empty_inbox=True)


async def _deletes(store: SessionStore, session: Session, _: int) -> None:
    await store.delete(session.key, revision=session.revision)


WRITES = (_begins, _queues, _appends, _deletes)


async def one_of_several_writers_finds_the_revision(store: Callable[[], SessionStore]) -> None:
    """A33: for all kinds of writes, in every order, with several writers at once."""
    handles = [store() for _ in range(2)]
    app = fresh_key().app
    pairs = [*permutations(WRITES, 2), *((write, write) for write in WRITES)]
    for place, pair in enumerate(pairs * 3):
        key = SessionKey(app, "user-1", f"s-{place}")
        session = await told(handles[0], key, "i-0")
        calls = [write(handle, session, n) for n, (write, handle) in enumerate(zip(pair, handles, strict=True))]
        results = await at_once(calls)
        problems = lost(results)
        assert len(problems) == 1, (pair, results)
        busy = (SessionBusy,) if _appends in pair else ()
        assert isinstance(problems[0], (StaleWriter, SessionMissing, *busy)), (pair, problems)
    for handle in handles:
        await handle.close()


CASES: Sequence[Case] = (
    a_message_waits_only_at_its_revision,
    a_session_that_does_not_exist_has_no_revision,
    a_session_is_deleted_and_forked_at_its_revision,
    a_queued_message_is_a_change,
    a_queued_message_is_not_replaced,
)
SHARED_CASES: Sequence[SharedCase] = (one_of_several_writers_finds_the_revision,)
