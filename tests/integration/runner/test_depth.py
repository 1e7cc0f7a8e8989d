"""What is nested too deeply to be read again is refused before it is stored: the session stays readable."""

from collections.abc import Callable

import pytest
from pydantic import JsonValue
from runner_play import ask, key, reason

from turnwise import AgentContext, Runner, agent
from turnwise.facts.content import Content, DataPart, TextPart
from turnwise.facts.errors import MessageTooLarge


def nested(depth: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(depth):
        value = [value]
    return value


async def test_a_message(make_runner: Callable[..., Runner]) -> None:
    @agent
    def echo(message: Content) -> Content:
        return message.replace(role="agent")

    runner = make_runner(echo)
    for depth in (101, 150, 197):
        with pytest.raises(MessageTooLarge, match="nested"):
            await runner.start(Content(parts=(DataPart(data=nested(depth)),)), user="ada", session="s")
    assert reason(await ask(runner, Content(parts=(TextPart(text="hi"), DataPart(data=nested(100)))))) == "completed"
    assert len(await runner.store.events(key())) == 2


@pytest.mark.parametrize("depth", [101, 150, 197])
async def test_what_an_agent_says_and_keeps(make_runner: Callable[..., Runner], depth: int) -> None:
    @agent
    async def deep(message: str, context: AgentContext) -> Content:
        if message == "keep":
            context.state["x"] = nested(depth)
        return Content(parts=(DataPart(data=nested(depth)),))

    runner = make_runner(deep)
    for text in ("keep", "say"):
        result = await ask(runner, text)
        assert reason(result) == "failed"
        assert result.error is not None
        assert "nested" in result.error.message
    assert len(await runner.store.events(key())) == 4
