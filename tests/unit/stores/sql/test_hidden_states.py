"""Rewinds of many invocations, on both databases: their states disappear at once, and are cleared in steps by any process."""

from pathlib import Path

import pytest
from sqlalchemy import Connection, func, select
from store_play import on

from turnwise.facts.sessions import SessionKey
from turnwise.ports.retention import Retention
from turnwise.stores.sql import SqlSessionStore, spans
from turnwise.stores.sql.app_tables import labels
from turnwise.stores.sql.spans import ClearedUpTo
from turnwise.stores.sql.tables import decisions, removals
from turnwise.testing.postgres import new_postgres_database
from turnwise.testing.session_store_cases.making import NOW, check_fold, opened, rewinds, told

KEY = SessionKey("app", "user", "session")
IDS = [f"i-{number}" for number in range(12)]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/sessions.db" if request.param == "sqlite" else new_postgres_database()


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clears one state at once, and three decisions or two ranges a step."""
    monkeypatch.setattr(spans, "CLEARED_AT_ONCE", 1)
    monkeypatch.setattr(spans, "STEP_DECISIONS", 3)
    monkeypatch.setattr(spans, "STEP_RANGES", 2)


async def listed(store: SqlSessionStore, limit: int = 50) -> list[str]:
    """Returns the listed invocations, page by page."""
    found, after = list[str](), None
    while True:
        page = await store.decisions.invocations(KEY.app, user=KEY.user, after=after, limit=limit)
        found += [info.invocation_id for info in page.items]
        if (after := page.next) is None:
            break
    assert await store.decisions.count_invocations(KEY.app, user=KEY.user) == len(found)
    assert await store.decisions.count_invocations(KEY.app, user=KEY.user, states=["completed"]) == len(found)
    return sorted(found)


def stored(url: str) -> tuple[int, int]:
    """Returns the numbers of stored states and of stored removals."""

    def count(connection: Connection) -> tuple[int, int]:
        with_state = select(func.count()).select_from(decisions).where(decisions.c.changed_at.is_not(None))
        return connection.execute(with_state).scalar_one(), len(connection.execute(select(removals)).all())

    found: tuple[int, int] = on(url, count)
    return found


def _count_labels(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(labels)).scalar_one()


async def rewind(store: SqlSessionStore, first: int) -> None:
    await store.append(await opened(store, KEY), [rewinds(first, "i-0")])


async def one_step(store: SqlSessionStore, position: ClearedUpTo) -> ClearedUpTo | None:
    """Takes one step, as a process that dies after it."""

    def step(connection: Connection) -> ClearedUpTo | None:
        (pending,) = spans.pending_rewinds(connection)
        return spans.clear_states(connection, pending, position)

    return await store._executor.write(step)


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
async def test_another_process_clears_the_rest(url: str, steps: int) -> None:
    """A44, E7: a process may die after any step. What is hidden is never listed."""
    dying, other = SqlSessionStore(url), SqlSessionStore(url)
    await told(dying, KEY, *IDS)
    await rewind(dying, 3)
    assert stored(url) == (12, 1)
    position: ClearedUpTo | None = ClearedUpTo()
    for _ in range(steps):
        assert position is not None
        position = await one_step(dying, position)
        assert await listed(other) == ["i-0"]
    assert stored(url) == (12 - 3 * steps, 1)
    assert await other.maintenance.finish_deletions()
    assert not await other.maintenance.finish_deletions()
    assert stored(url) == (1, 0)
    assert await listed(other, limit=1) == ["i-0"]
    await dying.close()
    await other.close()


async def test_a_rewind_between_two_steps_is_cleared_too(url: str) -> None:
    store = SqlSessionStore(url)
    await told(store, KEY, *IDS)
    await rewind(store, 11)
    position = await one_step(store, ClearedUpTo())
    assert position is not None
    await rewind(store, 3)
    assert await listed(store) == ["i-0"]
    while position is not None:
        position = await one_step(store, position)
    assert stored(url) == (1, 0)
    await told(store, KEY, "i-20")
    assert await listed(store) == ["i-0", "i-20"]
    await store.close()


async def test_many_ranges_take_several_steps(url: str) -> None:
    store = SqlSessionStore(url)
    for number in range(6):
        session = await told(store, KEY, f"a-{number}", f"b-{number}", f"c-{number}")
        await rewind(store, session.last_sequence - 3)
    assert await listed(store) == [f"a-{number}" for number in range(6)]
    assert stored(url) == (18, 1)
    await store.maintenance.finish_deletions()
    assert stored(url) == (6, 0)
    assert await listed(store, limit=2) == [f"a-{number}" for number in range(6)]
    await store.close()


async def test_few_states_are_cleared_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "CLEARED_AT_ONCE", 100)
    store = SqlSessionStore(url)
    await told(store, KEY, *IDS)
    await rewind(store, 3)
    assert stored(url) == (1, 0)
    await store.close()


async def test_the_overview_shows_the_last_visible_state(url: str) -> None:
    store = SqlSessionStore(url)
    await told(store, KEY, *IDS)
    await rewind(store, 1)
    (found,) = (await store.decisions.recent_sessions(KEY.app)).items
    assert found.state is None
    assert (await store.decisions.recent_sessions(KEY.app, state="completed")).items == ()
    await store.close()


@pytest.mark.parametrize("how", ["deleted", "pruned", "erased"])
async def test_a_deletion_comes_before_the_clearing(url: str, how: str) -> None:
    """A44: the session's rows go, its labels as the deletion says."""
    store = SqlSessionStore(url)
    await told(store, KEY, *IDS)
    await store.decisions.label(KEY, 5, "other")
    await rewind(store, 3)
    if how == "deleted":
        await store.delete(KEY)
    elif how == "pruned":
        rules = Retention.model_validate({"sessions": {"days": 1}})
        await store.prune(KEY.app, rules, now=NOW.replace(year=NOW.year + 1))
    else:
        await store.delete_user(KEY.app, KEY.user)
    assert await store.open(KEY) is None
    assert stored(url) == (0, 0)
    assert on(url, _count_labels) == (1 if how == "pruned" else 0)
    await told(store, KEY, "new")
    assert await listed(store) == ["new"]
    assert not await store.maintenance.finish_deletions()
    await store.close()


async def test_a_fork_keeps_the_states_that_began_in_it(url: str) -> None:
    store = SqlSessionStore(url)
    await told(store, KEY, *IDS)
    copy = await store.fork(KEY, "fork")
    await told(store, copy.key, "f-1", "f-2", "f-3")
    await rewind(store, 3)
    await store.append(await opened(store, copy.key), [rewinds(23, "i-11")])
    assert await listed(store) == ["i-0"]
    await store.maintenance.finish_deletions()
    assert stored(url) == (1, 0)
    await check_fold(store, copy.key)
    await store.close()
