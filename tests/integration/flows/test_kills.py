"""A process dies at any commit of a flow, and another takes it up: nothing that had succeeded is done again (D4, D12)."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flow_play import TEN, died_at, ten_tasks
from runner_play import direct, key, soon

from turnwise import Runner, SqlSessionStore
from turnwise.facts.events import Event
from turnwise.flows.logged import task_end_of
from turnwise.testing.postgres import new_postgres_database


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/s.db" if request.param == "sqlite" else new_postgres_database()


def results(events: list[Event]) -> dict[str, Any]:
    closings = [closing for event in events if (closing := task_end_of(event)) is not None]
    assert len(closings) == len({closing.task for closing in closings}), "a task ended twice"
    return {closing.task: closing.result for closing in closings}


async def left(runner: Runner, session: str) -> tuple[list[Event], Counter[str]]:
    """What is in the log, and how often each task's state says it was done."""
    events = await runner.store.events(key(session))
    state = (await runner.sessions.get(key(session))).state
    return events, Counter({name: state[name] for name in TEN if name in state})


@pytest.mark.parametrize("side_by_side", [1, 3])
async def test_killed_at_every_commit_it_comes_to_the_same_results(url: str, side_by_side: int) -> None:
    """D12: the results are the same wherever it died, and only what had not succeeded was done again."""
    whole: Counter[str] = Counter()
    runner = Runner(ten_tasks(whole, side_by_side=side_by_side), store=SqlSessionStore(url))
    first = await runner.start("go", user="ada", session="whole", context=direct("ten"))
    answer = (await first.result()).text
    expected = results((await left(runner, "whole"))[0])
    await runner.close()
    assert whole == Counter(dict.fromkeys(TEN, 1))
    commit = 0
    while True:
        commit += 1
        session, ran = f"s{commit}", Counter[str]()
        make = partial(Runner, ten_tasks(ran, side_by_side=side_by_side))
        died = await died_at(commit, url, make, "go", session, context=direct("ten"))
        runner = Runner(ten_tasks(ran, side_by_side=side_by_side), store=SqlSessionStore(url))
        before = results((await left(runner, session))[0]) if died and commit > 1 else {}
        ran_before = Counter(ran)
        invocation = await runner.start("go", user="ada", session=session, context=direct("ten"), message_id="m")
        result = await soon(invocation.result())
        events, done = await left(runner, session)
        await runner.close()
        assert result.text == answer
        assert results(events) == expected
        assert done == Counter(dict.fromkeys(TEN, 1)), "what a task wrote is there once"
        assert all(ran[name] == ran_before[name] for name in before), f"done again after it had succeeded, commit {commit}"
        if not died:
            break
    assert commit > 2 * len(TEN)
