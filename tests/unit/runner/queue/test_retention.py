"""Pruning in the background: step by step, and again after a pause."""

from datetime import timedelta

import pytest

from turnwise.facts.errors import ConfigError
from turnwise.ports.retention import Retention, SessionRule
from turnwise.runner.queue.retention import Pruning
from turnwise.stores.artifacts.local import InMemoryArtifactStore
from turnwise.stores.sql import SqlSessionStore, pruning
from turnwise.testing.session_store_cases.making import NOW, fresh_key, told

RULES = Retention(sessions=SessionRule(days=5), every_seconds=60)


async def test_a_pass_goes_on_step_by_step_and_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "USERS", 1)
    store, artifacts, now = SqlSessionStore("sqlite://"), InMemoryArtifactStore(), [0.0]
    key = fresh_key()
    keys = [key._replace(user=user) for user in ("a", "b")]
    for each in keys:
        await told(store, each, "i-1")
        await artifacts.save(each, "x", b"1")
    worker = Pruning(store, artifacts, key.app, RULES, lambda: NOW + timedelta(days=9), lambda: now[0])

    async def left() -> list[str]:
        return [info.key.user for info in (await store.list(key.app)).items]

    await worker.step_when_due()
    assert await left() == ["b"]
    assert [await artifacts.load(each, "x") is None for each in keys] == [True, False]
    await worker.step_when_due()
    assert await left() == []
    await worker.step_when_due()
    await told(store, keys[0], "i-2")
    await worker.step_when_due()
    assert await left() == ["a"], "the next pass is not due"
    now[0] = 60.0
    await worker.step_when_due()
    assert await left() == []
    await store.close()


def test_rules_need_a_store_that_can_prune() -> None:
    with pytest.raises(ConfigError, match="cannot prune"):
        Pruning(object(), None, "app", RULES, lambda: NOW)
    Pruning(object(), None, "app", Retention(), lambda: NOW)
