"""The agents that the processes run. Each counts its work in a file, so that work which is done twice shows."""

import asyncio
import os
import random
import signal
import uuid
from collections.abc import Callable

from survival_play.records import Records
from turnwise import AgentContext, agent
from turnwise.agents.function import FunctionAgent

TRAFFIC = ("plain", "stepped", "talker", "counting")
"""The agents that mixed traffic goes to."""
STEPS = {"stepped": ("first", "second"), "talker": ("closing",)}
"""What the answer to a message of that kind does inside `context.step`."""
IN_STEPS = frozenset({"first", "second", "closing", "begun"})
"""The places where work is done inside `context.step`, whatever the agent."""
LONG_EVENTS = 150
THINKING = "thinking"


def front(records: Records, thinking_seconds: float) -> FunctionAgent:
    """The root of a tree with all of them; `thinking_seconds` is how long `slow` takes."""

    def work(id_: str, place: str) -> str:
        token = uuid.uuid4().hex[:12]
        records.write("work", id=id_, place=place, token=token)
        return token

    @agent(children=[*_traffic(work), *_special(work, thinking_seconds)])
    async def front(message: str) -> str:
        return f"front {message}"

    return front


Work = Callable[[str, str], str]
"""Has some effect outside of the session, for a message and at a place; gives a token that nobody else has."""


def _traffic(work: Work) -> list[FunctionAgent]:
    @agent
    async def plain(message: str) -> str:
        work(message, "plain")
        await _pause()
        return f"plain {message}"

    @agent
    async def stepped(message: str, context: AgentContext) -> str:
        first = await context.step("first", lambda: work(message, "first"))
        await _pause()
        second = await context.step("second", lambda: work(message, "second"))
        await _pause()
        return f"stepped {message} {first} {second}"

    @agent
    async def talker(message: str, context: AgentContext) -> None:
        for word in ("one", "two"):
            await context.say(f"{word} {message}")
            await _pause()
        await context.transfer("closer")

    @agent
    async def closer(message: str, context: AgentContext) -> str:
        closing = await context.step("closing", lambda: work(message, "closing"))
        await context.say(f"three {message}")
        await _pause()
        return f"closed {message} {closing}"

    @agent
    async def counting(message: str, context: AgentContext) -> str:
        work(message, "counting")
        context.state["counted"] = context.state.get("counted", 0) + 1
        await context.say(f"counting {message}")
        await _pause()
        context.state["answered"] = context.state.get("answered", 0) + 1
        return f"counted {message}"

    return [plain, stepped, talker, closer, counting]


def _special(work: Work, thinking_seconds: float) -> list[FunctionAgent]:
    @agent
    async def slow(message: str, context: AgentContext) -> str:
        """Says that it thinks, and answers a while later with the number of its process."""
        await context.step("begun", lambda: work(message, "begun"))
        await context.say(THINKING)
        work(message, THINKING)
        await asyncio.sleep(thinking_seconds)
        return f"slow {message} {os.getpid()}"

    @agent
    async def long(message: str, context: AgentContext) -> str:
        """A long answer: half of it said, half of it streamed."""
        for number in range(LONG_EVENTS):
            if number % 2:
                async with context.stream() as out:
                    await out.write(f"{number} ")
                    await asyncio.sleep(0.015)
                    await out.write("and on")
            else:
                await context.say(f"{number}")
        return f"long {message}"

    @agent
    async def poison(message: str) -> None:
        """Takes its process along, every time."""
        work(message, "poison")
        os.kill(os.getpid(), signal.SIGKILL)

    return [slow, long, poison]


async def _pause() -> None:
    await asyncio.sleep(random.uniform(0.0, 0.25))
