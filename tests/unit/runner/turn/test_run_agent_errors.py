"""An agent's run, whatever it raises."""

import asyncio
import logging
from typing import Any

import pytest

from turnwise.facts.errors import AgentFailed, TransferRefused, TurnwiseError
from turnwise.facts.tree import AgentCard
from turnwise.runner.turn.run_agent import run_agent

CARD = AgentCard(name="clerk")


class Reported:
    def __init__(self) -> None:
        self.errors: list[TurnwiseError] = []

    async def __call__(self, error: TurnwiseError) -> None:
        self.errors.append(error)


async def raising(error: BaseException) -> Any:
    raise error


async def test_what_an_agent_raises_is_reported_and_where_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """At ERROR, with the places of its own code; the text of the exception may be a user's, and is not logged."""
    reported = Reported()

    async def drawer() -> None:
        raise KeyError("sk-secret")

    async def play() -> None:
        await drawer()

    with pytest.raises(AgentFailed, match="'clerk' raised KeyError"):
        await run_agent(CARD, play, reported)
    assert [type(each) for each in reported.errors] == [AgentFailed]
    (line,) = caplog.records
    assert line.levelno == logging.ERROR
    said = line.getMessage()
    assert said.startswith("Agent 'clerk' raised KeyError at ")
    assert [place.rpartition(" in ")[2] for place in said.split(" < ")][:2] == ["drawer", "play"]
    assert said.count(__file__) >= 2
    assert "turnwise/runner" not in said.replace(__file__, "")
    assert "sk-secret" not in caplog.text


async def test_the_whole_traceback_is_logged_for_those_who_ask(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNWISE_DEBUG", "1")
    with pytest.raises(AgentFailed):
        await run_agent(CARD, lambda: raising(KeyError("drawer")), Reported())
    assert "Traceback" in caplog.text


async def test_typed_errors_stay_as_they_are() -> None:
    reported = Reported()
    with pytest.raises(TransferRefused) as raised:
        await run_agent(CARD, lambda: raising(TransferRefused("No.")), reported)
    assert reported.errors == [raised.value]


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), BaseException()]
)
async def test_whatever_an_agent_raises_is_its_failure(error: BaseException) -> None:
    """What would end the process, or the loop, among it."""
    reported = Reported()
    with pytest.raises(AgentFailed, match=f"raised {type(error).__name__}") as raised:
        await run_agent(CARD, lambda: raising(error), reported)
    assert raised.value.__cause__ is error
    assert reported.errors == [raised.value]


def test_a_run_that_is_closed_is_no_failure() -> None:
    """As when the loop goes away under it."""
    reported = Reported()

    class Waits:
        def __await__(self) -> Any:
            yield

    async def play() -> None:
        await Waits()

    run = run_agent(CARD.replace(time_limit=None), play, reported)
    loop = asyncio.new_event_loop()
    try:
        task = loop.create_task(run)
        loop.call_soon(loop.stop)
        loop.run_forever()
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    finally:
        loop.close()
    assert reported.errors == []
