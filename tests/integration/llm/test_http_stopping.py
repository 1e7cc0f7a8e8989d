"""Runs that are stopped while a service answers or a tool works: what is left is valid for every service (A23)."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from llm_http import Line, Wire, calls, results
from llm_play import on_record, told
from llm_servers import Answer
from runner_play import ask, reason, soon, texts

from turnwise import Limits, RunConfig, Runner
from turnwise.agents.llm import LlmAgent

Process = Callable[..., Runner]


@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])
async def test_cancel_in_the_middle_of_an_answer(process: Process, wire: Wire, streaming: bool) -> None:
    """The call ends at the service, too."""
    wire.say(Answer("Once upon a time there was a clerk.", wait=threading.Event()), "Hello again.")
    runner = process(LlmAgent("clerk", model=wire.model()), config=RunConfig(streaming=streaming))
    invocation = await runner.start("a story", user="ada", session="s")
    if streaming:
        async for event in invocation.events():
            if event.partial:
                break
    else:
        await wire.was_asked()
    await invocation.cancel()
    assert reason(await invocation.result()) == "cancelled"
    assert await asyncio.to_thread(wire.service.dropped.wait, 30)
    assert (await ask(runner, "hello")).text == "Hello again."
    assert wire.sent()[-1] == [Line("user", "a story"), Line("user", "hello")]


async def test_cancel_in_the_middle_of_the_arguments(process: Process, wire: Wire) -> None:
    """No call is on record that was never whole."""
    wire.say(calls(("slow", {"why": "because of the weather"}), wait=threading.Event()), "Hello again.")

    async def slow(why: str) -> str:
        raise AssertionError("a call that was never whole")

    runner = process(LlmAgent("clerk", model=wire.model(), tools=[slow]))
    invocation = await runner.start("go", user="ada", session="s")
    async for event in invocation.events():
        if event.partial:
            break
    await invocation.cancel()
    assert reason(await invocation.result()) == "cancelled"
    assert (await ask(runner, "hello")).text == "Hello again."
    assert wire.sent()[-1] == [Line("user", "go"), Line("user", "hello")]


async def test_cancel_in_the_middle_of_a_tool(process: Process, wire: Wire) -> None:
    """Of three calls one was done, and the model is told what came of it; of the others, that they were cancelled."""
    began = asyncio.Event()

    async def quick() -> str:
        return "quick"

    async def slow() -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    wire.say(calls(("quick", {}), ("slow", {}), ("slow", {}), text="I look."), "Hello again.", "Yes.")
    runner = process(LlmAgent("clerk", model=wire.model(), tools=[quick, slow]))
    invocation = await runner.start("go", user="ada", session="s")
    await soon(began.wait())
    await soon(on_record(runner, "tool#1.0"))
    await invocation.cancel()
    result = await invocation.result()
    assert (reason(result), told(result)[-1]) == ("cancelled", "cancelled")
    assert (await ask(runner, "hello")).text == "Hello again."
    asked = wire.sent()[-1]
    assert [line.text for line in asked if line.role == "assistant"] == [
        "I look.",
        "(calls) quick {}",
        "(calls) slow {}",
        "(calls) slow {}",
    ]
    quick_told, *slow_told = results(asked)
    assert quick_told == "quick: quick"
    assert ["cancelled" in text for text in slow_told] == [True, True]
    assert (await ask(runner, "still there?")).text == "Yes."


async def test_a_message_that_interrupts(process: Process, wire: Wire) -> None:
    """A32: the run before it ends as a cancelled one does."""
    began = asyncio.Event()

    async def slow() -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    wire.say(calls(("slow", {})), "Here I am.")
    runner = process(LlmAgent("clerk", model=wire.model(), tools=[slow]))
    first = await runner.start("go", user="ada", session="s")
    await soon(began.wait())
    second = await ask(runner, "stop that", config=RunConfig(when_busy="interrupt"))
    assert (second.text, reason(await first.result())) == ("Here I am.", "cancelled")
    assert len(results(wire.sent()[-1])) == 1


async def test_a_run_that_takes_too_long(process: Process, wire: Wire) -> None:
    """limits.invocation_seconds: the call ends at the service, and the conversation goes on."""
    wire.say(Answer("Once upon a time there was a clerk.", wait=threading.Event()), "Hello again.")
    runner = process(LlmAgent("clerk", model=wire.model()))
    hurried = RunConfig(limits=Limits(invocation_seconds=0.5, grace_seconds=1))
    late = await ask(runner, "a story", config=hurried)
    assert late.end is not None
    assert late.end.reason != "completed"
    assert await asyncio.to_thread(wire.service.dropped.wait, 30)
    assert (await ask(runner, "hello")).text == "Hello again."
    assert await texts(runner) == ["a story", "hello", "Hello again."]
