"""Removals by steps, on both databases: no row is left, whatever is deleted first and wherever it is interrupted."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, select
from store_play import on

from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql import SqlSessionStore, log, removals, spans
from turnwise.stores.sql.app_tables import metadata
from turnwise.testing.postgres import new_postgres_database
from turnwise.testing.session_store_cases import histories
from turnwise.testing.session_store_cases.making import LEASE, asked, check_fold, ended, message, opened, said, texts, told

KEY = SessionKey("app", "user", "session")
NOT_OF_USERS = {"turnwise_version", "turnwise_app_state", "turnwise_keys", "turnwise_counters", "turnwise_places"}
NOT_OF_USERS |= {"turnwise_processes", "turnwise_audit"}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/sessions.db" if request.param == "sqlite" else new_postgres_database()


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deletes four rows a step, clears two states a step and one at once, and folds a snapshot every three events."""
    monkeypatch.setattr(removals, "STEP_ROWS", 4)
    monkeypatch.setattr(spans, "STEP_DECISIONS", 2)
    monkeypatch.setattr(spans, "CLEARED_AT_ONCE", 1)
    monkeypatch.setattr(log, "SNAPSHOT_EVENTS", 3)


def rows_left(url: str) -> dict[str, int]:
    """Returns the number of rows of each table with a user's rows that has any."""

    def count(connection: Connection) -> dict[str, int]:
        tables = [table for table in metadata.sorted_tables if table.name not in NOT_OF_USERS]
        counted = {table.name: connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables}
        return {name: number for name, number in counted.items() if number}

    found: dict[str, int] = on(url, count)
    return found


async def finish(store: SqlSessionStore) -> None:
    while await store.maintenance.finish_deletions():
        continue


async def one_step(store: SqlSessionStore) -> bool:
    """Takes one step of the first removal, as a process that dies after it. Returns whether there was one."""

    def step(connection: Connection) -> bool:
        pending = removals.pending(connection)
        if pending:
            removals.remove_some(connection, pending[0])
        return bool(pending)

    return await store._executor.write(step)


async def family(store: SqlSessionStore) -> list[SessionKey]:
    """Returns a session with messages, a fork of it, and a fork of the fork, each with events that only it has."""
    session = await store.create(KEY, state={"user:a": 1})
    begun = await store.begin(session, LEASE, message(), [asked(state_delta={"b": 1})], queue_limit=None)
    await store.append(begun, [ended(text="hi")], release=True)
    await told(store, KEY, *(f"i-{number}" for number in range(2, 8)))
    await store.decisions.label(KEY, 3, "other")
    keys = [KEY]
    for id_ in ("fork", "fork of the fork"):
        copy = await store.fork(keys[-1], id_)
        await told(store, copy.key, *(f"{id_}-{number}" for number in range(4)))
        keys.append(copy.key)
    return keys


@pytest.mark.usefixtures("short_steps")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)])
async def test_the_last_reader_of_a_log_removes_it(url: str, order: tuple[int, ...]) -> None:
    """A44: a fork reads what it inherited while it exists; then no row is left."""
    store = SqlSessionStore(url)
    keys = await family(store)
    shown = {key: await texts(store, key) for key in keys}
    for number, place in enumerate(order):
        await store.delete(keys[place])
        await finish(store)
        for key in (keys[other] for other in order[number + 1 :]):
            assert await texts(store, key) == shown[key]
            folded = await check_fold(store, key)
            assert (await store.fork(key, "probe")).state == folded.state
            await store.delete(key._replace(id="probe"))
            await finish(store)
    assert rows_left(url) == {"turnwise_user_state": 1}
    await store.delete_user(KEY.app, KEY.user)
    assert rows_left(url) == {}
    await store.close()


@pytest.mark.usefixtures("short_steps")
@pytest.mark.parametrize("whole_user", [True, False])
async def test_another_process_finishes_what_one_began(url: str, whole_user: bool) -> None:
    """A44, E7: a process may die after any step of a deletion."""
    dying, other = SqlSessionStore(url), SqlSessionStore(url)
    steps, unfinished = 0, True
    while unfinished:
        keys = await family(dying)

        def hide(connection: Connection, keys: list[SessionKey] = keys) -> None:
            if whole_user:
                removals.hide_user(connection, KEY.app, KEY.user, "boss", "now")
                return
            for key in keys:
                removals.hide_session(connection, key, None, "boss", "now")

        await dying._executor.write(hide)
        assert [await other.open(key) for key in keys] == [None] * 3
        for _ in range(steps):
            unfinished = await one_step(dying)
        fresh = await told(other, KEY, "new")
        await finish(other)
        assert await texts(other, KEY) == ["hello", "hi"]
        assert (await opened(other, KEY)).head == fresh.head
        await other.delete_user(KEY.app, KEY.user)
        assert rows_left(url) == {}
        steps += 3
    assert steps > 12, "else the steps are too large for this test"
    await dying.close()
    await other.close()


@pytest.mark.usefixtures("short_steps")
async def test_two_processes_may_finish_the_same_deletion(url: str) -> None:
    first, second = SqlSessionStore(url), SqlSessionStore(url)
    keys = await family(first)
    await asyncio.gather(*(first.delete(key) for key in keys), second.delete_user(KEY.app, KEY.user))
    await asyncio.gather(finish(first), finish(second))
    await finish(second)
    assert rows_left(url) == {}
    await first.close()
    await second.close()


@pytest.mark.usefixtures("short_steps")
@pytest.mark.parametrize("case", histories.CASES, ids=lambda case: case.__name__)
async def test_histories_with_many_snapshots_and_short_steps(url: str, case: Any) -> None:
    """A24, A44: a fold from a snapshot is the fold from the beginning."""
    store = SqlSessionStore(url)
    await case(store)
    await store.close()


@pytest.mark.usefixtures("short_steps")
async def test_a_rewound_part_that_a_fork_reads_stays(url: str) -> None:
    """A44: the fork was made before the rewind."""
    store = SqlSessionStore(url)
    session = await told(store, KEY, "i-1", "i-2", "i-3")
    copy = await store.fork(KEY, "fork")
    await store.append(session, [said("user", invocation="r", rewind={"from_sequence": 1, "invocation_id": "i-1"})])
    await store.delete(KEY)
    await finish(store)
    assert await texts(store, copy.key) == ["hello", "hi"] * 3
    assert await check_fold(store, copy.key) == copy
    await store.delete(copy.key)
    await finish(store)
    assert rows_left(url) == {}
    await store.close()
