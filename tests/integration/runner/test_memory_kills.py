"""A process is killed at each of its commits: what it remembered is there with its event, or not at all, and once."""

from pathlib import Path

import memory_process
import pytest
from runner_play import key, soon

from turnwise.facts.memory import MemoryEntry
from turnwise.runner import Runner
from turnwise.testing.postgres import new_postgres_database

COMMITS = 7
"""More than a turn makes."""


async def entries(runner: Runner) -> list[MemoryEntry]:
    return list((await runner.store.memory.recent("app", "ada", superseded=True)).items)


async def check_sources(runner: Runner) -> None:
    """Each entry is in a visible event, and each entry of a visible event is stored."""
    events = await runner.store.events(key())
    in_log = {entry.id: event.sequence for event in events for entry in event.actions.remembered}
    assert {entry.id: entry.source and entry.source.sequence for entry in await entries(runner)} == in_log


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_killed_turn_remembers_once(kind: str, when: str, tmp_path: Path) -> None:
    """G2, decision 6."""
    died = 0
    for commits in range(1, COMMITS):
        url = f"sqlite:///{tmp_path}/{when}{commits}.db" if kind == "sqlite" else new_postgres_database()
        printed = await memory_process.start(url, commits, when)
        died += printed == ""
        runner = memory_process.runner_at(url)
        try:
            await check_sources(runner)
            sent = runner.start("Where is 10412?", user="ada", session="s", message_id=memory_process.MESSAGE)
            result = await soon((await soon(sent)).result())
            assert result.text == "I have noted it."
            assert sorted(entry.text for entry in await entries(runner)) == memory_process.TEXTS
            await check_sources(runner)
        finally:
            await runner.close()
        if printed:
            break
    assert died >= 3, "a turn makes at least three commits"
