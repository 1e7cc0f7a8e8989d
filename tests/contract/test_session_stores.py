"""The SQL session store against the public conformance suite: SQLite on disk and in memory, and a real PostgreSQL."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from turnwise.facts.events import USER, Await, Event
from turnwise.ports.stores import SessionStore
from turnwise.stores.sql import SqlSessionStore
from turnwise.testing import session_store_suite
from turnwise.testing.session_store_cases.making import asked, check_fold, ended, fresh_key, rewinds, said


def run(case: session_store_suite.Case, url: str) -> None:
    async def with_store() -> None:
        store = SqlSessionStore(url)
        try:
            await case(store)
        finally:
            await store.close()

    asyncio.run(with_store())


@pytest.mark.parametrize("case", session_store_suite.CASES, ids=lambda case: case.__name__)
def test_conformance(case: session_store_suite.Case, url: str) -> None:
    """A24, A29 to A34, A44, E1, E4"""
    run(case, url)


@pytest.mark.parametrize("case", session_store_suite.SHARED_CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_conformance_of_several_handles(case: session_store_suite.SharedCase, url: str) -> None:
    """A32, A33: a database in memory has one handle only."""
    asyncio.run(case(lambda: SqlSessionStore(url)))


NAMES = st.sampled_from(["help", "sales", "billing"])
INVOCATIONS = st.sampled_from(["i-1", "i-2", "i-3"])
STATE = st.dictionaries(
    st.sampled_from(["a", "b", "user:c", "app:d", "temp:e"]), st.none() | st.integers() | st.text(max_size=3)
)


@st.composite
def happenings(draw: st.DrawFn) -> Event:
    """Any event, with rewinds among them."""
    invocation, name, state = draw(INVOCATIONS), draw(NAMES), draw(STATE)
    match draw(st.integers(0, 6)):
        case 0:
            return rewinds(draw(st.integers(-1, 12)), invocation)
        case 1 | 2:
            return asked(draw(st.text(max_size=5)) + "?", invocation=invocation, agent=name, state_delta=state)
        case 3:
            return ended(name, draw(st.text(max_size=5)), invocation=invocation, state_delta=state)
        case 4:
            return said(name, "wait", invocation=invocation, awaits=Await(id=f"w-{invocation}"), state_delta=state)
        case 5:
            return said(USER, "yes", invocation=invocation, answers=f"w-{invocation}")
    return said(name, "so", invocation=invocation, transfer_to=draw(NAMES), state_delta=state)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(appends=st.lists(st.lists(happenings(), max_size=4), max_size=6), cut=INVOCATIONS)
def test_the_row_is_the_fold_of_what_is_visible(url: str, appends: list[list[Event]], cut: str) -> None:
    """A24, A31, A44: after any appends and rewinds, and in forks of what came of them."""

    async def check(store: SessionStore) -> None:
        key, initial = fresh_key(), {"a": 0}
        session = await store.create(key, state={**initial})
        for events in appends:
            session = await store.append(session, events)
            assert await check_fold(store, key, initial) == session
            listed = (await store.decisions.invocations(key.app, user=key.user, states=["running", "waiting"])).items
            open_ = {(id_, open_.began, open_.state) for id_, open_ in session.head.invocations.items()}
            assert {(info.invocation_id, info.sequence, info.state) for info in listed} == open_
        visible = await store.events(key)
        assert [event.sequence for event in await store.events(key, hidden=True)] == list(range(1, session.last_sequence + 1))
        copies = [await store.fork(key, "copy")]
        if any(event.invocation_id == cut for event in visible):
            copies.append(await store.fork(key, "cut", before_invocation=cut))
        for copy in copies:
            assert await check_fold(store, copy.key, initial) == copy
            assert copy.head.invocations == {}
            assert (await store.decisions.invocations(key.app, user=key.user, key=copy.key)).items == ()

    run(check, url)
