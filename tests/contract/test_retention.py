"""Retention on SQLite (on disk and in memory) and PostgreSQL."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pytest

from turnwise.facts.errors import UserOnHold
from turnwise.facts.events import Actions
from turnwise.facts.memory import MemoryEntry
from turnwise.facts.selections import Selection
from turnwise.ports.decisions import Label
from turnwise.ports.definitions import Author, Definition
from turnwise.ports.records import Hold
from turnwise.ports.retention import AgeRule, DefinitionRule, MemoryRule, Retention, RetentionRules, SessionRule
from turnwise.runner.queue.retention import Pruning
from turnwise.stores.sql import SqlSessionStore, pruning
from turnwise.testing.session_store_cases.making import LEASE, NOW, asked, ended, fresh_key, message, opened, told

LATER = NOW + timedelta(days=10)
EVERY = AgeRule(days=5)


@pytest.fixture
def store(url: str) -> Iterator[SqlSessionStore]:
    store = SqlSessionStore(url)
    yield store
    asyncio.run(store.close())


async def prune(store: SqlSessionStore, app: str, retention: Retention, *, dry_run: bool = False) -> dict[str, int]:
    """Runs a whole pass. Returns what was pruned, without zeros."""
    counts: Counter[str] = Counter()
    after: str | None = None
    while True:
        pruned = await store.prune(app, retention, now=LATER, after=after, dry_run=dry_run)
        counts.update(pruned.counts)
        if (after := pruned.next) is None:
            return {kind: number for kind, number in counts.items() if number}


async def test_old_sessions_go_with_everything_but_labels(store: SqlSessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "SESSIONS", 2)
    key = fresh_key()
    keys = [key._replace(user=user, id=id_) for user in ("a", "b") for id_ in ("1", "2", "3")]
    for each in keys:
        await told(store, each, "i-1")
    await store.labels.put(keys[0], 1, Label(agent="x"), actor="op")
    rules = Retention(sessions=SessionRule(days=5), users={"b": RetentionRules()})
    assert await prune(store, key.app, rules, dry_run=True) == {"sessions": 3}
    assert len((await store.list(key.app)).items) == 6, "a dry run changes nothing"
    assert await prune(store, key.app, rules) == {"sessions": 3}
    assert [info.key for info in (await store.list(key.app)).items] == keys[3:]
    assert sorted(decision.key for decision in (await store.decisions.search(key.app)).items) == keys[3:]
    assert [found.key for found in (await store.labels.search(key.app)).items] == [keys[0]]
    assert await prune(store, key.app, rules) == {}
    assert not await store.maintenance.finish_deletions()


async def test_a_user_keeps_the_last_updated_sessions(store: SqlSessionStore) -> None:
    key = fresh_key()
    for number in range(4):
        await told(store, key._replace(id=f"s-{number}"), "i-1", text="x" * 400_000)
    assert await prune(store, key.app, Retention(sessions=SessionRule(most=3))) == {"sessions": 1}
    assert await prune(store, key.app, Retention(sessions=SessionRule(megabytes=1))) == {"sessions": 1}
    assert len((await store.list(key.app)).items) == 2


async def test_sessions_in_use_and_users_on_hold_are_spared(store: SqlSessionStore) -> None:
    key = fresh_key()
    queued, leased, open_, held = (key._replace(id=name) for name in ("queued", "leased", "open", "held"))
    held = held._replace(user="held")
    for each in (queued, held):
        await told(store, each, "i-1")
    await store.inbox.accept(queued, message(), create=False, limit=5)
    await store.begin(await store.create(leased), LEASE, message(), [asked()], queue_limit=None)
    await store.append(await store.create(open_), [asked()])
    await store.holds.add(key.app, Hold(id=f"h-{key.app}", user="held", author="boss", at=NOW, reason="x"))
    rules = Retention(sessions=SessionRule(days=5), decisions=EVERY, inbox=EVERY, invocations=EVERY, pushes=EVERY)
    assert await prune(store, key.app, rules) == {}
    assert len((await store.list(key.app)).items) == 4
    await store.holds.remove(key.app, f"h-{key.app}", actor="boss")
    assert await prune(store, key.app, rules) == {"sessions": 1}


async def test_a_pruned_decision_keeps_its_short_selection_and_labels(
    store: SqlSessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E1, E4"""
    monkeypatch.setattr(pruning, "STEP_ROWS", 2)
    key = fresh_key()
    await told(store, key, "i-1", "i-2", "i-3")
    await store.labels.put(key, 1, Label(agent="x"), actor="op")
    shadow = Selection(agent="y", method="resume", confidence=0.5, reason="It knows the user's address.")
    assert await store.experiments.put_shadow(key, 1, shadow)
    before = (await store.decisions.search(key.app)).items
    session = await opened(store, key)
    assert await prune(store, key.app, Retention(decisions=AgeRule(days=20))) == {}
    assert await prune(store, key.app, Retention(decisions=EVERY)) == {"decisions": 3}
    assert await prune(store, key.app, Retention(decisions=EVERY)) == {}
    after = (await store.decisions.search(key.app)).items
    assert [decision.text for decision in after] == ["", "", ""]
    assert [decision.selection.agent for decision in after] == [decision.selection.agent for decision in before]
    assert (before[-1].shadow, after[-1].shadow) == (shadow, None)
    assert after[-1].label == "x"
    assert await opened(store, key) == session
    event = (await store.events(key))[0]
    assert event.text == "hello"
    assert event.actions.selection is not None
    assert (event.actions.selection.agent, event.actions.selection.verdicts) == (before[0].selection.agent, ())


async def test_versions_of_definitions_that_nobody_names_are_pruned(store: SqlSessionStore) -> None:
    """F1, F3: decisions keep the versions that served at their revision, whatever texts they hold; pruned decisions do not."""
    key, odd = fresh_key(), '\x00 "revision":1,'
    author = Author("ann", NOW)
    for version in range(7):
        await store.definitions.put(key.app, [Definition(name="a")], {("agent", "a"): version}, author)
    for revision in (2, 4):
        selection = Selection(agent="a", method="resume", confidence=0.5, reason=odd, revision=revision)
        event = asked(invocation=f"i-{revision}").replace(actions=Actions(selection=selection))
        await store.append(
            await store.create(key._replace(id=f"s-{revision}")), [event, ended("a", invocation=f"i-{revision}")]
        )
    rules = Retention(definitions=DefinitionRule(versions=1))

    async def passed(rules: Retention, *, dry_run: bool = False) -> int:
        work = Pruning(store, None, key.app, rules, lambda: LATER).whole_pass(dry_run=dry_run)
        return [counts async for counts in work][-1]["definitions"]

    async def kept() -> list[int]:
        return [each.version for each in (await store.definitions.history(key.app, "agent", "a")).items]

    assert await passed(rules, dry_run=True) == 4
    assert await passed(rules) == 4
    assert await kept() == [7, 4, 2]
    assert await passed(rules.replace(decisions=EVERY)) == 2
    assert await kept() == [7]


async def test_versions_that_served_while_a_pass_ran_stay(store: SqlSessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """F3: a decision may name them that was made after its user was read."""
    monkeypatch.setattr(pruning, "USERS", 1)
    key = fresh_key()
    for user in ("a", "b"):
        await told(store, key._replace(user=user), "i-1")
    for version in range(3):
        await store.definitions.put(key.app, [Definition(name="a")], {("agent", "a"): version}, Author("ann", NOW))
    rules = Retention(definitions=DefinitionRule(versions=1))
    work = Pruning(store, None, key.app, rules, lambda: LATER).whole_pass()
    await anext(work)
    for version in range(3, 5):
        await store.definitions.put(key.app, [Definition(name="a")], {("agent", "a"): version}, Author("ann", NOW))
    counts = [each async for each in work]
    assert counts[-1]["definitions"] == 2
    assert [each.version for each in (await store.definitions.history(key.app, "agent", "a")).items] == [5, 4, 3]


async def test_memories_are_pruned_by_age_and_number(store: SqlSessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without sessions counts, too. A replaced entry goes with the one that replaces it, and never comes back."""
    monkeypatch.setattr(pruning, "MEMORIES", 2)
    monkeypatch.setattr(pruning, "USERS", 2)
    app = fresh_key().app
    for user in ("ann", "ben", "cat", "held"):
        entries = [MemoryEntry(id=f"e-{n}", text=f"tea {n}", created_at=NOW + timedelta(days=n)) for n in range(9)]
        entries[8] = entries[8].replace(supersedes=("e-7",))
        await store.memory.remember(app, user, entries)
    await store.holds.add(app, Hold(id=f"h-{app}", user="held", author="boss", at=NOW, reason="x"))

    async def left(user: str) -> list[str]:
        return [entry.id for entry in (await store.memory.recent(app, user, superseded=True)).items]

    rules = Retention(
        memories=MemoryRule(days=7), users={"ben": RetentionRules(memories=MemoryRule(most=2)), "cat": RetentionRules()}
    )
    expected = {"memories": 3 + 7}
    assert await prune(store, app, rules, dry_run=True) == expected
    assert len(await left("ann")) == 9
    assert await prune(store, app, rules) == expected
    assert await prune(store, app, rules) == {}
    assert await left("ann") == [f"e-{n}" for n in range(8, 2, -1)]
    assert await left("ben") == ["e-8", "e-7"]
    assert len(await left("cat")) == len(await left("held")) == 9
    for what in ({"ids": ["e-1"]}, {"session": "s"}, {}):
        with pytest.raises(UserOnHold):
            await store.memory.forget(app, "held", **what)
    only_newest = Retention(memories=MemoryRule(most=1), users={"cat": RetentionRules()})
    await prune(store, app, only_newest)
    assert await left("ben") == ["e-8"]
    usage = await store.maintenance.usage(app, "ben")
    assert (usage.memories, usage.bytes) == (1, len("tea 8"))
