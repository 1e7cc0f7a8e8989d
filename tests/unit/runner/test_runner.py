import asyncio
import logging
from typing import Any

import pytest

from turnwise import Runner, SqlSessionStore, agent
from turnwise.agents.function import FunctionAgent
from turnwise.runner.agent_sets import close_agents


class Holding(FunctionAgent):
    """An agent that holds something; `fails` is raised when it is closed."""

    def __init__(self, name: str, fails: Exception | None = None, children: Any = ()) -> None:
        made = agent(name=name, children=children)(lambda: "hello")
        super().__init__(made._function, made.card, children)
        self.closed, self._fails = 0, fails

    async def close(self) -> None:
        self.closed += 1
        if self._fails:
            raise self._fails


async def test_a_runner_that_closes_closes_its_agents() -> None:
    below = Holding("below")

    @agent
    def plain() -> str:
        return "plain"

    root = Holding("root", children=[below, plain])
    runner = Runner(root, store=SqlSessionStore("sqlite://"))
    await runner.close()
    await runner.close()
    assert (root.closed, below.closed) == (2, 2)


async def test_what_an_agent_raises_keeps_nobody_from_closing(caplog: pytest.LogCaptureFixture) -> None:
    broken, whole = Holding("broken", OSError("stuck")), Holding("whole")
    with caplog.at_level(logging.ERROR):
        await close_agents([broken, whole])
    assert whole.closed == 1
    assert "'broken' was not closed: OSError: stuck" in caplog.text


async def test_closing_can_be_cancelled() -> None:
    class Hanging(Holding):
        async def close(self) -> None:
            await asyncio.Event().wait()

    task = asyncio.create_task(close_agents([Hanging("hanging")]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
