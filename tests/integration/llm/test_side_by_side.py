"""Tools that run side by side, and ask or say something, are told apart when their turn is run again (A42)."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from llm_play import answering, told, waiting_call
from runner_play import Crash, ask, key, kill, reason, texts

from turnwise import AgentContext, Runner, agent
from turnwise.agents.llm import LlmAgent
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.function import tool

Process = Callable[..., Runner]


class Turns:
    """How long each of two works takes, run after run: who is first in one is second in the next."""

    def __init__(self) -> None:
        self._runs = {"first": 0, "second": 0}

    def seconds(self, who: str) -> float:
        self._runs[who] += 1
        return 0.05 if (self._runs[who] % 2 == 0) is (who == "first") else 0.0


def plain_tools() -> list[Any]:
    turns = Turns()

    def name(context: AgentContext) -> Any:
        time.sleep(turns.seconds("first"))
        return asked(context, "Name?")

    def size(context: AgentContext) -> Any:
        time.sleep(turns.seconds("second"))
        return asked(context, "Size?")

    return [name, size]


def async_tools() -> list[Any]:
    turns = Turns()

    async def name(context: AgentContext) -> str:
        await asyncio.sleep(turns.seconds("first"))
        return await asked(context, "Name?")

    async def size(context: AgentContext) -> str:
        await asyncio.sleep(turns.seconds("second"))
        return await asked(context, "Size?")

    return [name, size]


async def asked(context: AgentContext, question: str) -> str:
    return (await context.ask(question)).text


@pytest.mark.parametrize("tools", [plain_tools, async_tools])
async def test_each_question_gets_its_own_reply_whoever_comes_to_it_first(process: Process, tools: Any) -> None:
    """A42: in other processes too."""
    model = ScriptedModel([calls("name"), calls("size")], "Done.")
    clerk = LlmAgent("clerk", model=model, tools=tools())
    first = await ask(process(clerk), "hi")
    assert sorted(first.text.split("\n")) == ["Name?", "Size?"]
    replies = {"Name?": "Ada", "Size?": "XL"}
    for question in first.text.split("\n"):
        done = await ask(process(clerk), replies[question])
    assert reason(done) == "completed"
    assert [part.result for part in model.requests[-1].messages[-1].tool_results] == ["Ada", "XL"]
    assert sorted(await texts(process(clerk))) == sorted(["hi", "Name?", "Size?", "Ada", "XL", "Done."])


async def test_what_a_tool_says_after_its_reply_is_said_while_another_still_asks(process: Process) -> None:
    """A18, A42."""

    async def name(context: AgentContext) -> str:
        await context.say(f"Welcome, {await asked(context, 'Name?')}.")
        return "greeted"

    async def size(context: AgentContext) -> str:
        await asyncio.sleep(0.02)
        return await asked(context, "Size?")

    clerk = LlmAgent("clerk", model=ScriptedModel([calls("name"), calls("size")], "Done."), tools=[name, size])
    await ask(process(clerk), "hi")
    second = await ask(process(clerk), "Ada")
    assert (second.text, told(second)) == ("Welcome, Ada.", ["greeted"])
    third = await ask(process(clerk), "XL")
    assert (third.text, told(third)) == ("Done.", ["XL"])


async def test_what_a_tool_says_that_was_agreed_to_is_said(process: Process) -> None:
    """A42: what was told meanwhile of the call beside it is not taken for it."""

    async def pay() -> str:
        return "paid"

    @tool(confirm=True)
    async def ship(context: AgentContext) -> str:
        await context.say("It goes out now.")
        context.state["shipped"] = context.state.get("shipped", 0) + 1
        return "shipped"

    model = ScriptedModel([calls("pay"), calls("ship")], "Done.")
    clerk = LlmAgent("clerk", model=model, tools=[pay, ship])
    first = await ask(process(clerk), "go")
    second = await ask(process(clerk), answering(waiting_call(first), True))
    assert (second.text, told(second)) == ("It goes out now.\nDone.", ["shipped"])
    assert (await process(clerk).sessions.get(key())).state == {"shipped": 1}


async def test_what_a_finished_step_said_is_not_taken_for_what_comes_after_it(process: Process) -> None:
    """A42: nor is what it wrote."""

    @agent
    async def form(context: AgentContext) -> str:
        async def name() -> str:
            await context.say("First things first.")
            context.state["n"] = context.state.get("n", 0) + 1
            return await asked(context, "Name?")

        who = await context.step("name", name)
        await context.say(f"Welcome, {who}.")
        context.state["n"] = context.state.get("n", 0) + 1
        sure = await asked(context, "Sure?")
        return f"{sure}, {context.state['n']}"

    await ask(process(form), "hi")
    await ask(process(form), "Ada")
    done = await ask(process(form), "yes")
    said = ["hi", "First things first.", "Name?", "Ada", "Welcome, Ada.", "Sure?", "yes", "yes, 2"]
    assert (await texts(process(form)), done.text) == (said, "yes, 2")


async def test_what_a_tool_writes_stays_while_another_still_asks(process: Process) -> None:
    """A24, A42."""

    async def name(context: AgentContext) -> str:
        context.state["draft"] = "begun"
        context.state["name"] = await asked(context, "Name?")
        return "noted"

    async def size(context: AgentContext) -> str:
        await asyncio.sleep(0.02)
        context.state["size"] = await asked(context, "Size?")
        return f"{context.state['draft']}, {context.state['name']}"

    clerk = LlmAgent("clerk", model=ScriptedModel([calls("name"), calls("size")], "Done."), tools=[name, size])
    await ask(process(clerk), "hi")
    await ask(process(clerk), "Ada")
    assert (await process(clerk).sessions.get(key())).state == {"draft": "begun", "name": "Ada"}
    done = await ask(process(clerk), "XL")
    assert told(done) == ["begun, Ada"]
    assert (await process(clerk).sessions.get(key())).state == {"draft": "begun", "name": "Ada", "size": "XL"}


async def test_a_new_attempt_after_a_reply_asks_nothing_twice(process: Process) -> None:
    """A42, E7."""
    crash = Crash()

    async def name(context: AgentContext) -> str:
        return await asked(context, "Name?")

    async def size(context: AgentContext) -> str:
        reply = await asked(context, "Size?")
        await crash.here()
        return reply

    clerk = LlmAgent("clerk", model=ScriptedModel([calls("name"), calls("size")], "Done."), tools=[name, size])
    await ask(process(clerk), "hi")
    await ask(process(clerk), "Ada")
    await kill(process, clerk, crash, "XL")
    alive = process(clerk)
    await alive.recover()
    assert [text for text in await texts(alive) if text] == ["hi", "Name?", "Size?", "Ada", "XL", "Done."]
