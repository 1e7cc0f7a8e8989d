"""The states of invocations, as updated in the transactions that change them."""

from datetime import timedelta

from turnwise.facts.errors import CursorInvalid
from turnwise.facts.events import USER, Await, End, Event
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import SessionStore
from turnwise.testing.session_store_cases.making import (
    LEASE,
    NOW,
    OTHER_LEASE,
    Case,
    asked,
    ended,
    fresh_key,
    message,
    opened,
    refused,
    rewinds,
    said,
    told,
)


def at(seconds: int, event: Event) -> Event:
    """The event, moved by that many seconds."""
    return event.replace(created_at=NOW + timedelta(seconds=seconds))


def waits(invocation: str, wait: str = "w-1") -> Event:
    return said("help", "sure?", invocation=invocation, awaits=Await(id=wait))


async def states(store: SessionStore, key: SessionKey) -> dict[str, str | None]:
    """The state of each invocation of the session, the latest change first."""
    page = await store.decisions.invocations(key.app, user=key.user, key=key)
    return {info.invocation_id: info.state for info in page.items}


async def an_invocation_stands_as_its_events_say(store: SessionStore) -> None:
    """A42: running, waiting, running again, ended. Other events do not change the state."""
    key = fresh_key()
    first = asked("pay")
    session = await store.begin(await store.create(key), LEASE, message(), [first], queue_limit=None)
    (info,) = (await store.decisions.invocations(key.app, user=key.user)).items
    assert info == (key, 1, first.id, "i-1", "running", NOW)
    session = await store.append(session, [at(1, said("help", "well"))])
    assert (await store.decisions.invocations(key.app, user=key.user)).items == (info,)
    session = await store.append(session, [at(2, waits("i-1"))], release=True)
    (info,) = (await store.decisions.invocations(key.app, user=key.user)).items
    assert (info.state, info.changed_at) == ("waiting", NOW + timedelta(seconds=2))
    reply = at(3, asked("yes", answers="w-1"))
    session = await store.begin(session, LEASE, message(), [reply], queue_limit=None)
    (info,) = (await store.decisions.invocations(key.app, user=key.user)).items
    assert (info.sequence, info.event_id, info.state) == (1, first.id, "running")
    assert info.changed_at == NOW + timedelta(seconds=3)
    await store.append(session, [said("help", "paid"), at(4, ended())], release=True)
    (info,) = (await store.decisions.invocations(key.app, user=key.user)).items
    assert (info.state, info.changed_at) == ("completed", NOW + timedelta(seconds=4))
    assert len((await store.decisions.search(key.app)).items) == 2, "the reply was decided, too"


async def the_reason_of_the_end_is_the_state(store: SessionStore) -> None:
    key = fresh_key()
    session = await store.create(key)
    for number, reason in enumerate(("completed", "clarify", "failed", "cancelled", "blocked", "loop", "limit:steps")):
        events = [asked(invocation=f"i-{number}"), said("help", invocation=f"i-{number}", end=End(reason=reason))]
        session = await store.append(session, events)
        assert (await states(store, key))[f"i-{number}"] == reason
    both = said(USER, "hm", invocation="i-x", selection=asked().actions.selection, end=End(reason="clarify"))
    await store.append(session, [both])
    assert (await states(store, key))["i-x"] == "clarify"


async def what_nobody_was_selected_for_is_not_listed(store: SessionStore) -> None:
    """Selections inside an invocation start no invocation either."""
    key = fresh_key()
    selection = asked().actions.selection
    session = await store.append(await store.create(key), [said(USER, "brought"), ended()])
    session = await store.append(session, [asked(invocation="i-2"), said("help", invocation="i-2", selection=selection)])
    await store.append(session, [asked("more", invocation="i-2"), ended(invocation="i-2")])
    assert await states(store, key) == {"i-2": "completed"}
    assert len((await store.decisions.search(key.app)).items) == 3


async def what_changed_last_comes_first(store: SessionStore) -> None:
    key = fresh_key()
    session = await store.create(key)
    for number in range(3):
        session = await store.append(session, [at(number, asked(invocation=f"i-{number}"))])
    assert list(await states(store, key)) == ["i-2", "i-1", "i-0"]
    session = await store.append(session, [at(5, ended(invocation="i-1"))])
    session = await store.append(session, [at(6, waits("i-0"))])
    assert await states(store, key) == {"i-0": "waiting", "i-1": "completed", "i-2": "running"}


async def invocations_are_found_by_what_is_asked(store: SessionStore) -> None:
    key = fresh_key()
    second, other = key._replace(id="session-2"), key._replace(user="user-2")
    for number, (each, reason) in enumerate(((key, "completed"), (second, "limit:steps"), (other, "completed"))):
        id_ = f"i-{number}"
        events = [at(number, asked(invocation=id_)), at(number, said("help", invocation=id_, end=End(reason=reason)))]
        await store.append(await store.create(each), events)
    session = await opened(store, key)
    await store.append(session, [at(9, asked(invocation="i-9"))])
    await told(store, fresh_key(), "i-elsewhere")

    async def found(**filters: object) -> list[str]:
        wanted = {"user": key.user, **filters}
        page = await store.decisions.invocations(key.app, **wanted)  # type: ignore[arg-type]
        assert await store.decisions.count_invocations(key.app, **wanted) == len(page.items)  # type: ignore[arg-type]
        return [info.invocation_id for info in page.items]

    assert await found() == ["i-9", "i-1", "i-0"]
    assert await found(user="user-2") == ["i-2"]
    assert await found(key=second) == ["i-1"]
    assert await found(key=other) == await found(user="nobody") == await found(key=key._replace(id="none")) == []
    assert await found(states=["running", "completed"]) == ["i-9", "i-0"]
    assert await found(states=["limit:steps"]) == await found(states=["limit:"]) == ["i-1"]
    assert await found(states=["limit:turns"]) == await found(states=[]) == []
    assert await found(since=NOW + timedelta(seconds=1)) == ["i-9", "i-1"]
    assert await found(since=NOW + timedelta(seconds=1), states=["running"], key=key) == ["i-9"]


async def invocations_are_paged(store: SessionStore) -> None:
    """Changes between two pages neither repeat nor skip an invocation that did not change."""
    key = fresh_key()
    session = await store.create(key)
    for number in range(7):
        session = await store.append(session, [at(number // 2, asked(invocation=f"i-{number}"))])
    found: list[str] = []
    after = None
    while True:
        page = await store.decisions.invocations(key.app, user=key.user, after=after, limit=2)
        assert len(page.items) <= 2
        found += [info.invocation_id for info in page.items]
        if (after := page.next) is None:
            break
        if len(found) == 2:
            session = await store.append(session, [at(9, ended(invocation="i-0"))])
    assert found == ["i-6", "i-5", "i-4", "i-3", "i-2", "i-1"]
    assert await store.decisions.count_invocations(key.app, user=key.user) == 7
    assert (await store.decisions.invocations(key.app, user=key.user, limit=7)).next is None
    sessions = (await store.decisions.search(key.app, limit=1)).next
    for wrong in ("", "x", "%%%", sessions):
        await refused(store.decisions.invocations(key.app, user=key.user, after=wrong), CursorInvalid)
    await refused(store.decisions.invocations(key.app, user=key.user, limit=0), ValueError)


async def what_a_rewind_took_back_is_not_listed(store: SessionStore) -> None:
    """A44: whether it had ended or not. Its decisions stay."""
    key = fresh_key()
    session = await told(store, key, "i-1", "i-2")
    session = await store.append(session, [asked(invocation="i-3"), waits("i-3")])
    before = await store.decisions.search(key.app)
    session = await store.append(session, [at(1, rewinds(3, "i-2"))])
    assert await states(store, key) == {"i-1": "completed"}
    assert await store.decisions.search(key.app) == before
    again = [at(2, rewinds(1, "i-1")), at(2, asked(invocation="i-4"))]
    await store.begin(session, LEASE, message(), again, queue_limit=None)
    assert await states(store, key) == {"i-4": "running"}


async def a_rewind_opens_again_what_it_hides_the_end_of(store: SessionStore) -> None:
    """A44, A42"""
    key = fresh_key()
    session = await store.append(await store.create(key), [asked(), waits("i-1")])
    session = await told(store, key, "i-2")
    session = await store.append(session, [said(USER, "yes", answers="w-1"), ended()])
    assert (await states(store, key))["i-1"] == "completed"
    session = await store.append(session, [rewinds(3, "i-2")])
    assert await states(store, key) == {"i-1": "waiting"}
    await store.append(session, [said(USER, "yes", answers="w-1"), said("help", end=End(reason="failed"))])
    assert await states(store, key) == {"i-1": "failed"}


async def a_new_attempt_goes_on_running(store: SessionStore) -> None:
    """E7"""
    key = fresh_key()
    session = await store.append(await store.create(key), [asked(), said("help", "half")])
    session = await store.take(session, OTHER_LEASE, [at(1, rewinds(2))])
    (info,) = (await store.decisions.invocations(key.app, user=key.user)).items
    assert (info.state, info.changed_at) == ("running", NOW)
    await store.append(session, [ended()], release=True)
    assert await states(store, key) == {"i-1": "completed"}


async def a_fork_lists_what_happens_in_it(store: SessionStore) -> None:
    """A44"""
    key = fresh_key()
    await told(store, key, "i-1", "i-2")
    copy = await store.fork(key, "copy")
    assert await states(store, copy.key) == {}
    assert await store.decisions.count_invocations(key.app, user=key.user) == 2
    await store.append(copy, [asked(invocation="i-3"), waits("i-3")])
    assert await states(store, copy.key) == {"i-3": "waiting"}
    assert list(await states(store, key)) == ["i-2", "i-1"]


async def what_is_deleted_is_not_listed(store: SessionStore) -> None:
    key = fresh_key()
    second, other = key._replace(id="session-2"), key._replace(user="user-2")
    for each in (key, second, other):
        await told(store, each, "i-1")
    await store.delete(key)
    assert await store.decisions.count_invocations(key.app, user=key.user) == 1
    await store.delete_user(key.app, key.user)
    assert await store.decisions.count_invocations(key.app, user=key.user) == 0
    assert await states(store, other) == {"i-1": "completed"}


async def the_same_append_again_changes_nothing(store: SessionStore) -> None:
    """A34"""
    key = fresh_key()
    first = await store.create(key)
    events = [asked(), waits("i-1")]
    await store.append(first, events)
    await store.append(first, events)
    assert await states(store, key) == {"i-1": "waiting"}


CASES: tuple[Case, ...] = (
    an_invocation_stands_as_its_events_say,
    the_reason_of_the_end_is_the_state,
    what_nobody_was_selected_for_is_not_listed,
    what_changed_last_comes_first,
    invocations_are_found_by_what_is_asked,
    invocations_are_paged,
    what_a_rewind_took_back_is_not_listed,
    a_rewind_opens_again_what_it_hides_the_end_of,
    a_new_attempt_goes_on_running,
    a_fork_lists_what_happens_in_it,
    what_is_deleted_is_not_listed,
    the_same_append_again_changes_nothing,
)
