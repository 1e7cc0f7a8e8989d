"""Experiments in the SQL store (behaviours H6, H7): SQLite on disk and in memory, and a real PostgreSQL."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic_core import PydanticSerializationError
from trial_play import START, a_record, a_shadow, an_experiment

from turnwise.facts.errors import CursorInvalid, StoreError
from turnwise.facts.events import Actions, Event
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import Label
from turnwise.ports.records import Act
from turnwise.stores.sql import SqlSessionStore
from turnwise.testing.session_store_cases.making import asked, ended, fresh_key


@pytest.fixture
def key() -> SessionKey:
    """A session of the test's own app, because tests share a PostgreSQL database."""
    return fresh_key()._replace(user="ada", id="s")


@pytest.fixture
def store(url: str) -> Iterator[SqlSessionStore]:
    made = SqlSessionStore(url)
    yield made
    asyncio.run(made.close())


def decided(invocation: str, minute: int, arm: str | None, experiment: str | None = "trial") -> Event:
    event = asked("hello", invocation=invocation, agent="help")
    selection = event.actions.selection
    assert selection is not None
    selection = selection.replace(experiment=experiment, arm=arm, tree_version="tree")
    return event.replace(created_at=START + timedelta(minutes=minute), actions=Actions(selection=selection))


async def write(store: SqlSessionStore, key: SessionKey, *events: Event) -> None:
    await store.append(await store.open(key) or await store.create(key), events)


async def trials(store: SqlSessionStore, app: str, experiment: str | None, limit: int = 2) -> list[Any]:
    found: list[Any] = []
    after = None
    while True:
        page = await store.experiments.trials(app, experiment, after=after, limit=limit)
        found += page.items
        after = page.next
        if after is None:
            return found


async def test_experiments_are_changed_by_compare_and_set(store: SqlSessionStore, key: SessionKey) -> None:
    """H7"""
    first = await store.experiments.replace(key.app, a_record())
    assert first is not None
    assert first.version == 1
    assert await store.experiments.replace(key.app, a_record()) is None
    ended_ = first.ended("stopped", START, actor="me", reason="because")
    assert await store.experiments.replace(key.app, ended_) == ended_.replace(version=2)
    assert await store.experiments.replace(key.app, first) is None
    other = a_record(an_experiment(name="another"))
    await store.experiments.replace(key.app, other)
    assert [record.name for record in await store.experiments.all(key.app)] == ["another", "trial"]
    assert (await store.experiments.all(key.app))[1] == ended_.replace(version=2)
    assert await store.experiments.all("else") == []
    with pytest.raises(StoreError):
        await store.experiments.replace("a\0b", a_record())


async def test_a_change_and_its_audit_entry_are_stored_together_or_not_at_all(store: SqlSessionStore, key: SessionKey) -> None:
    """H7"""
    first = await store.experiments.replace(key.app, a_record())
    assert first is not None
    ended_, act = first.ended("stopped", START, actor="me"), Act("me", "experiment.stopped", details={"experiment": "trial"})
    with pytest.raises(PydanticSerializationError):
        await store.experiments.replace(key.app, ended_, act=act._replace(details={"experiment": object()}))  # type: ignore[dict-item]
    assert await store.experiments.all(key.app) == [first]
    assert await store.experiments.replace(key.app, ended_, act=act) is not None
    assert (
        await store.experiments.replace(key.app, ended_, act=act) is None
    )  # another version is stored, so nothing is recorded
    entries = (await store.audit.list(key.app)).items
    assert [(each.actor, each.action, each.details) for each in entries] == [(act.actor, act.action, act.details)]


async def test_trials_are_the_decisions_of_an_experiment_oldest_first(store: SqlSessionStore, key: SessionKey) -> None:
    """H7"""
    other = key._replace(user="bob", id="t")
    await write(store, key, decided("i1", 1, "a"), ended("help", invocation="i1"))
    await write(store, other, decided("i2", 2, "b"), ended("help", invocation="i2"))
    await write(store, key, decided("i3", 3, None, None), ended("help", invocation="i3"))
    await write(store, key, decided("i4", 4, "a"), ended("help", invocation="i4"))
    await write(store, other, decided("i5", 5, "b", "another"))
    found = await trials(store, key.app, "trial")
    assert [(trial.key, trial.sequence, trial.arm, trial.state) for trial in found] == [
        (key, 1, "a", "completed"),
        (other, 1, "b", "completed"),
        (key, 5, "a", "completed"),
    ]
    assert {(trial.agent, trial.outcome, trial.tree_version, trial.labels, trial.shadow) for trial in found} == {
        ("help", "chosen", "tree", (), None)
    }
    assert [trial.at for trial in found] == [START + timedelta(minutes=minute) for minute in (1, 2, 4)]
    assert await trials(store, key.app, "none") == await trials(store, key.app, None) == []
    with pytest.raises(CursorInvalid):
        await store.experiments.trials(key.app, "trial", after="nonsense")


async def test_trials_have_their_labels_the_heaviest_first(store: SqlSessionStore, key: SessionKey) -> None:
    await write(store, key, decided("i1", 1, "a"), ended("help", invocation="i1"), decided("i2", 2, "a"))
    for source, weight, agent in (("user", 0.5, "sales"), ("signal", 0.9, None), ("operator", 0.1, "help")):
        await store.labels.put(key, 1, Label(source=source, weight=weight, agent=agent, picked="random"), actor="x")
    first, second = await trials(store, key.app, "trial")
    assert [(each.source, each.agent, each.picked, each.weight) for each in first.labels] == [
        ("operator", "help", "random", 0.1),
        ("signal", None, "random", 0.9),
        ("user", "sales", "random", 0.5),
    ]
    assert second.labels == ()


async def test_a_shadow_is_stored_beside_the_decision(store: SqlSessionStore, key: SessionKey) -> None:
    """H6: not in the log."""
    await write(store, key, decided("i1", 1, None, None), ended("help", invocation="i1"))
    shadow = a_shadow(reason="naïve, with a NUL: \0")
    assert await store.experiments.put_shadow(key, 1, shadow)
    assert not await store.experiments.put_shadow(key, 2, shadow)
    assert not await store.experiments.put_shadow(key._replace(id="none"), 1, shadow)
    decision = await store.decisions.find(key, 1)
    assert decision is not None
    assert (decision.shadow, decision.selection.agent) == (shadow, "help")
    (event, _) = await store.events(key)
    assert "naïve" not in event.model_dump_json()
    (trial,) = await trials(store, key.app, None)
    assert (trial.arm, trial.shadow) == (None, shadow)


async def test_deleted_sessions_have_no_trials(store: SqlSessionStore, key: SessionKey) -> None:
    other = key._replace(user="bob")
    for each in (key, other):
        await write(store, each, decided("i1", 1, "a"))
        await store.experiments.put_shadow(each, 1, a_shadow())
    await store.delete(key)
    assert [trial.key for trial in await trials(store, key.app, "trial")] == [other]
    await store.delete_user(key.app, "bob")
    assert await trials(store, key.app, "trial") == await trials(store, key.app, None) == []
