"""How tests of tools call them: in a real turn of a real runner."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic import JsonValue

from turnwise import AgentContext, Runner, SqlSessionStore, agent
from turnwise.ports.agent import Agent
from turnwise.ports.tool import Tool, ToolCall
from turnwise.runner import Result


async def called(tool: Tool, context: Any = None, *, id: str = "call-1", **arguments: JsonValue) -> JsonValue:
    """What the tool gives for these arguments; without a context where the tool needs none."""
    return await tool.run(ToolCall(id, arguments, context))


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    """Returns when that is so; TimeoutError, instead of a hang, when it never is."""
    async with asyncio.timeout(60):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.01)


def at_work(work: Callable[[AgentContext], Awaitable[str]], children: Sequence[Agent] = (), **options: Any) -> Runner:
    """A runner whose root agent, `desk`, does that with its context and says what it gives."""

    @agent(children=children, description="Helps.")
    async def desk(context: AgentContext) -> str:
        return await work(context)

    return Runner(desk, store=SqlSessionStore("sqlite://"), **options)


async def turn(
    work: Callable[[AgentContext], Awaitable[str]], children: Sequence[Agent] = (), *, context: Any = None, **options: Any
) -> Result:
    """The result of one message to a new session of `at_work`."""
    runner = at_work(work, children, **options)
    try:
        return await (await runner.start("hello", user="ada", session="s", context=context)).result()
    finally:
        await runner.close()
