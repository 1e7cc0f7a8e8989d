"""Whoever waits for an answer when this process leaves."""

import asyncio

import pytest

from turnwise import Runner, SqlSessionStore, agent
from turnwise.facts.errors import Closing
from turnwise.facts.gateway import GatewayConfig
from turnwise.facts.sessions import SessionKey
from turnwise.gateway.front import Front
from turnwise.gateway.mcp.tool_calls import result_or_closing
from turnwise.gateway.server import front_for
from turnwise.runner import Invocation

INVOCATION = Invocation(SessionKey("app", "ann", "s"), "m")


@agent
def echo(message: str) -> str:
    return message


def front(grace: float) -> Front:
    return front_for(Runner(echo, store=SqlSessionStore("sqlite://")), GatewayConfig(grace_seconds=grace))


async def gives(value: str) -> str:
    return value


async def never(ended: asyncio.Event) -> str:
    try:
        await asyncio.Event().wait()
    finally:
        ended.set()
    return ""


async def test_the_answer_comes() -> None:
    assert await result_or_closing(front(0), INVOCATION, gives("it")) == "it"


async def test_what_went_wrong_comes() -> None:
    async def fails() -> str:
        raise ValueError("it")

    with pytest.raises(ValueError, match="it"):
        await result_or_closing(front(0), INVOCATION, fails())


async def test_an_answer_has_its_time() -> None:
    leaving = front(3600)
    leaving.closing.set()
    assert await result_or_closing(leaving, INVOCATION, gives("it")) == "it"


async def test_one_that_does_not_come_is_to_be_asked_for_again() -> None:
    leaving, ended = front(0), asyncio.Event()
    leaving.closing.set()
    with pytest.raises(Closing, match="Ask again with session 's' and message_id 'm'"):
        await result_or_closing(leaving, INVOCATION, never(ended))
    assert ended.is_set()
