"""An agent's run, whatever it raises."""

import logging

import pytest

from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import AgentFailed, TransferRefused, TurnwiseError
from turnwise.runner.turn.performing import performed

CARD = AgentCard(name="clerk")


async def test_what_an_agent_raises_is_reported_and_where_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "turnwise")
    reported: list[TurnwiseError] = []

    async def play() -> None:
        raise KeyError("drawer")

    with pytest.raises(AgentFailed, match="'clerk' raised KeyError"):
        await performed(CARD, play, reported.append)
    assert [type(each) for each in reported] == [AgentFailed]
    (line,) = caplog.records
    assert line.exc_info is not None
    assert isinstance(line.exc_info[1], KeyError)


async def test_nobody_who_did_not_ask_for_log_lines_gets_one(capfd: pytest.CaptureFixture[str]) -> None:
    # Python prints warnings of loggers that nobody listens to.
    assert logging.lastResort is not None
    assert logging.lastResort.level > logging.INFO

    async def play() -> None:
        raise KeyError("drawer")

    with pytest.raises(AgentFailed):
        await performed(CARD, play, lambda _: None)
    assert capfd.readouterr() == ("", "")


async def test_typed_errors_stay_as_they_are() -> None:
    reported: list[TurnwiseError] = []

    async def play() -> None:
        raise TransferRefused("No.")

    with pytest.raises(TransferRefused) as raised:
        await performed(CARD, play, reported.append)
    assert reported == [raised.value]
