"""The life of sessions: creating, opening, listing and deleting them (behaviours A24, A29, A44)."""

from pydantic import JsonValue

from turnwise.facts.errors import CursorInvalid, SessionExists, SessionMissing, StaleWriter, StoreError
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import SessionStore
from turnwise.testing.session_store_cases.making import (
    Case,
    asked,
    at_once,
    check_fold,
    fresh_key,
    lost,
    message,
    opened,
    refused,
    said,
    told,
    won,
    writes,
)

STRANGE_NAMES = (
    "",
    " ",
    "a'b\"c;--",
    "Zoë/🙂/漢字",
    "e\u0301",
    "\u00e9",
    "line\nbreak",
    "%_",
    "[x]",
    "x" * 500,
    "user:",
    "app:",
)


async def a_check_writes_nothing(store: SessionStore) -> None:
    """`Maintenance.check_writable` changes no session."""
    key = fresh_key()
    await store.create(key, state={"a": 1})
    before = await opened(store, key)
    await store.maintenance.check_writable()
    assert await opened(store, key) == before


async def missing_opens_as_none(store: SessionStore) -> None:
    """A29"""
    assert await store.open(fresh_key()) is None


async def blank_is_not_stored(store: SessionStore) -> None:
    """A29"""
    key = fresh_key()
    blank = await store.open(key, blank=True)
    assert blank is not None
    assert (blank.key, blank.revision, blank.epoch, blank.last_sequence, blank.state) == (key, 0, 0, 0, {})
    assert await store.open(key) is None
    assert (await store.list(key.app)).items == ()


async def created_opens_as_it_was_given(store: SessionStore) -> None:
    """A29"""
    key = fresh_key()
    created = await store.create(key, state={"a": [1, {"b": None}]})
    assert (created.key, created.last_sequence, created.state) == (key, 0, {"a": [1, {"b": None}]})
    assert await store.open(key) == created
    assert await store.open(key, blank=True) == created
    assert created.revision > 0, "a blank one has 0"


async def a_taken_key_is_an_error(store: SessionStore) -> None:
    """A29"""
    key = fresh_key()
    created = await store.create(key, state={"a": 1})
    await refused(store.create(key, state={"a": 2, "app:b": 3}), SessionExists)
    assert await store.open(key) == created


async def created_at_once_is_created_once(store: SessionStore) -> None:
    """A29"""
    key = fresh_key()
    results = await at_once(store.create(key, state={"n": n}) for n in range(10))
    assert [type(error) for error in lost(results)] == [SessionExists] * 9
    assert await store.open(key) == won(results)[0]


async def keys_differ_in_each_part(store: SessionStore) -> None:
    """A29"""
    key = fresh_key()
    keys = (key, key._replace(app=key.app + "x"), key._replace(user="user-2"), key._replace(id="session-2"))
    for number, each in enumerate(keys):
        await store.create(each, state={"n": number})
    assert [(await opened(store, each)).state["n"] for each in keys] == [0, 1, 2, 3]


async def strange_names_are_kept_apart(store: SessionStore) -> None:
    """A29"""
    app = fresh_key().app
    keys = [SessionKey(app, name, name) for name in STRANGE_NAMES]
    for number, key in enumerate(keys):
        await store.create(key, state={"n": number, "user:n": number})
    for number, key in enumerate(keys):
        session = await opened(store, key)
        assert (session.key, session.state["n"], session.user_state["n"]) == (key, number, number)
    assert [info.key for info in (await store.list(app)).items] == sorted(keys)


async def a_name_that_cannot_be_kept_is_refused(store: SessionStore) -> None:
    """A29"""
    key = fresh_key()
    for id_ in ("nul\0byte", "half \ud83d"):
        await refused(store.create(key._replace(id=id_)), StoreError)
        await refused(store.inbox.accept(key._replace(id=id_), message(), create=True, limit=1), StoreError)
    assert (await store.list(key.app)).items == ()


async def state_is_split_by_scope(store: SessionStore) -> None:
    """A24"""
    key = fresh_key()
    given: dict[str, JsonValue] = {"app:a": 1, "user:b": {"c": [2]}, "d": "x", "temp:e": 5, "user:gone": None}
    session = await store.create(key, state=given)
    assert (session.app_state, session.user_state, session.state) == ({"a": 1}, {"b": {"c": [2]}}, {"d": "x"})
    assert session.merged_state == {"app:a": 1, "user:b": {"c": [2]}, "d": "x"}
    assert await store.open(key) == session


async def shared_state_is_seen_by_whom_it_concerns(store: SessionStore) -> None:
    """A24"""
    key = fresh_key()
    session = await store.create(key)
    await store.append(session, [writes({"app:a": 1, "user:b": 2, "c": 3})])
    seen = [
        (s.app_state, s.user_state, s.state)
        for s in (
            await store.create(key._replace(id="session-2")),
            await store.create(key._replace(user="user-2")),
            await store.create(key._replace(user="")),
            await store.create(key._replace(app=key.app + "x")),
        )
    ]
    assert seen == [({"a": 1}, {"b": 2}, {}), ({"a": 1}, {}, {}), ({"a": 1}, {}, {}), ({}, {}, {})]
    blank = await store.open(key._replace(id="session-3"), blank=True)
    assert blank is not None
    assert (blank.app_state, blank.user_state) == ({"a": 1}, {"b": 2})


async def shared_state_is_written_key_by_key(store: SessionStore) -> None:
    """A24: the last writer wins, for each key that it writes."""
    key = fresh_key()
    one, two = await store.create(key, state={"app:a": 0}), await store.create(key._replace(id="session-2"))
    one = await store.append(one, [writes({"app:a": 1, "user:x": 1, "app:once": 1})])
    two = await store.append(two, [writes({"app:b": 2, "user:y": 2}), writes({"app:a": 3, "app:once": None})])
    session = await opened(store, key)
    assert (session.app_state, session.user_state) == ({"a": 3, "b": 2}, {"x": 1, "y": 2})


async def what_was_handed_out_is_a_copy(store: SessionStore) -> None:
    """A24"""
    key = fresh_key()
    given: dict[str, JsonValue] = {"list": [1]}
    created = await store.create(key, state=given)
    delta: dict[str, JsonValue] = {"more": [1], "user:shared": [1]}
    event = writes(delta)
    appended = await store.append(created, [event])
    for held in (given["list"], delta["more"], delta["user:shared"], event.actions.state_delta["more"]):
        assert isinstance(held, list)
        held.append(2)
    assert (appended.state, appended.user_state) == ({"list": [1], "more": [1]}, {"shared": [1]})
    held = appended.state["list"]
    assert isinstance(held, list)
    held.append(3)
    again = await store.append(appended, [writes({"other": 1})])
    assert again.state == {"list": [1], "more": [1], "other": 1}, "the log says so, and nothing else may"
    await check_fold(store, key, {"list": [1]})


async def lists_are_paged_by_key(store: SessionStore) -> None:
    """A29"""
    key = fresh_key()
    keys = sorted(SessionKey(key.app, user, id_) for user in ("b", "Ä", "a", "B") for id_ in ("s10", "s1", "S1", "s2"))
    for each in reversed(keys):
        await store.create(each)
    await store.create(key._replace(app=key.app + "x"))
    for limit in (1, 3, 16, 50):
        found, after = [], None
        while True:
            page = await store.list(key.app, after=after, limit=limit)
            found += [info.key for info in page.items]
            assert len(page.items) <= limit
            if (after := page.next) is None:
                break
        assert found == keys
    mine = await store.list(key.app, user="B", limit=3)
    rest = await store.list(key.app, user="B", limit=3, after=mine.next)
    assert [info.key.id for info in (*mine.items, *rest.items)] == ["S1", "s1", "s10", "s2"]
    assert rest.next is None
    assert (await store.list(key.app, user="nobody")).items == ()


async def a_list_says_how_far_a_session_is(store: SessionStore) -> None:
    """A29"""
    key = fresh_key()
    session = await told(store, key, "i-1", "i-2")
    (info,) = (await store.list(key.app)).items
    assert (info.revision, info.last_sequence) == (session.revision, 4)
    assert (info.created_at, info.updated_at) == (session.created_at, session.updated_at)


async def a_session_made_between_two_pages_shifts_nothing(store: SessionStore) -> None:
    """A29"""
    key = fresh_key()
    for id_ in ("b", "c", "d"):
        await store.create(key._replace(id=id_))
    first = await store.list(key.app, limit=2)
    await store.create(key._replace(id="a"))
    await store.delete(key._replace(id="c"))
    second = await store.list(key.app, limit=2, after=first.next)
    assert [info.key.id for info in second.items] == ["d"]


async def a_wrong_cursor_is_an_error(store: SessionStore) -> None:
    """A29"""
    key = fresh_key()
    for invocation in ("i-1", "i-2"):
        await told(store, key._replace(id=invocation), invocation)
    sessions, decisions = (await store.list(key.app, limit=1)).next, (await store.decisions.search(key.app, limit=1)).next
    assert sessions is not None
    assert decisions is not None
    for wrong in ("", "x", "ä", "%%%", sessions[:-3], decisions, "bnVsbA", "W10"):
        await refused(store.list(key.app, after=wrong), CursorInvalid)
    for wrong in ("", "x", sessions):
        await refused(store.decisions.search(key.app, after=wrong), CursorInvalid)
    await refused(store.list(key.app, limit=0), ValueError)


async def delete_takes_all_of_one_session(store: SessionStore) -> None:
    """A29"""
    key, other = fresh_key(), fresh_key()
    for each in (key, other):
        session = await told(store, each, "i-1")
        await store.append(session, [writes({"user:kept": 1})])
        await store.inbox.accept(each, message(id_="m-1"), create=False, limit=10)
        await store.decisions.label(each, 1, "someone")
    await store.delete(key)
    await store.delete(key)
    await store.delete(fresh_key())
    assert await store.open(key) is None
    assert await store.events(key, hidden=True) == []
    assert await store.inbox.receipt(key, "m-1") is None
    assert (await store.decisions.search(key.app)).items == ()
    again = await store.create(key)
    assert (again.last_sequence, again.state, again.user_state) == (0, {}, {"kept": 1})
    assert len(await store.events(other)) == 3
    assert (await store.decisions.search(other.app)).items[0].label == "someone"


async def a_writer_of_a_deleted_session_is_refused(store: SessionStore) -> None:
    """A33"""
    key = fresh_key()
    old = await told(store, key, "i-1")
    await store.delete(key)
    await refused(store.append(old, [said("help")]), SessionMissing)
    new = await told(store, key, "i-2")
    assert (new.epoch, new.revision) == (old.epoch, old.revision), "else this would be too easy"
    await refused(store.append(old, [said("help")]), StaleWriter)
    assert [event.invocation_id for event in await store.events(key)] == ["i-2", "i-2"]


async def delete_user_takes_all_of_that_user(store: SessionStore) -> None:
    """A44"""
    key = fresh_key()
    gone = (key, key._replace(id="session-2"))
    kept = (key._replace(user="user-2"), key._replace(user=""), key._replace(app=key.app + "x"))
    for each in (*gone, *kept):
        session = await store.create(each, state={"user:u": each.user, "app:a": each.app})
        await store.append(session, [asked(), writes({"user:v": 1})])
    await store.delete_user(key.app, key.user)
    await store.delete_user(key.app, key.user)
    assert [await store.open(each) for each in gone] == [None, None]
    assert [(await opened(store, each)).user_state for each in kept] == [{"u": each.user, "v": 1} for each in kept]
    assert [decision.key for decision in (await store.decisions.search(key.app)).items] == [kept[1], kept[0]]
    again = await store.create(key)
    assert (again.app_state, again.user_state) == ({"a": key.app}, {})


CASES: tuple[Case, ...] = (
    a_check_writes_nothing,
    missing_opens_as_none,
    blank_is_not_stored,
    created_opens_as_it_was_given,
    a_taken_key_is_an_error,
    created_at_once_is_created_once,
    keys_differ_in_each_part,
    strange_names_are_kept_apart,
    a_name_that_cannot_be_kept_is_refused,
    state_is_split_by_scope,
    shared_state_is_seen_by_whom_it_concerns,
    shared_state_is_written_key_by_key,
    what_was_handed_out_is_a_copy,
    lists_are_paged_by_key,
    a_list_says_how_far_a_session_is,
    a_session_made_between_two_pages_shifts_nothing,
    a_wrong_cursor_is_an_error,
    delete_takes_all_of_one_session,
    a_writer_of_a_deleted_session_is_refused,
    delete_user_takes_all_of_that_user,
)
