"""An agent whose surroundings fail rests in every process of the store, as seen through the public names alone."""

import asyncio
from pathlib import Path

from tool_play import until

from turnwise import ProcessConfig, Runner, Selection, agent

PROCESS = ProcessConfig(recovery_seconds=0.05, rest_seconds=3600)


def make(url: str) -> Runner:
    """One process of the app."""

    @agent(patterns=["rain"])
    async def weather(message: str) -> str:
        raise ConnectionRefusedError("no route")

    @agent(children=[weather])
    async def desk(message: str) -> str:
        return "ask me later"

    return Runner(desk, store=url, policy="staples", process=PROCESS)


async def ask(runner: Runner, user: str) -> Selection:
    result = await (await runner.start("does it rain?", user=user, session="s")).result()
    assert result.selection is not None
    return result.selection


async def test_an_agent_whose_surroundings_fail_rests_in_every_process(tmp_path: Path) -> None:
    """F8: after failures for three users in one process, another process leaves the agent out, and its record says so."""
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    here, there = make(url), make(url)
    assert [(await ask(here, user)).agent for user in ("ada", "bob", "eve")] == ["weather"] * 3

    async def knows_a_rest() -> bool:
        return bool(there.rests.resting())

    working = asyncio.create_task(there.work())
    await until(knows_a_rest)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    decision = await ask(there, "zoe")
    assert decision.agent == "desk"
    page = await there.store.decisions.search("app")
    (excluded,) = page.items[0].selection.excluded
    assert (excluded.agent, excluded.rule) == ("weather", "resting")
    assert excluded.detail.startswith("resting until ")
    await asyncio.gather(here.close(), there.close())
