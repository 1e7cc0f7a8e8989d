"""Calls that were made are told as made, however the invocation ends whose process died, or that could say no more (A23)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from llm_play import calls_of, noted, results_of, told
from runner_play import Crash, NoHeartbeat, ask, key, kill, killed, reason, soon

from turnwise import Limits, RunConfig, Runner
from turnwise.agents.llm import LlmAgent
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.built_in import AgentTool
from turnwise.tools.function import tool

Process = Callable[..., Runner]


def shop(crash: Crash, *answers: Any) -> tuple[list[str], LlmAgent]:
    """What was done; an agent that pays, and dies while it ships."""
    done: list[str] = []

    async def ship() -> str:
        await asyncio.sleep(0.05)
        await crash.here()
        return "shipped"

    model = ScriptedModel([calls("pay"), calls("order"), calls("ship")], *answers)
    pay, order = noted(done, "pay", "paid 7"), noted(done, "order", "ordered", later=True)
    return done, LlmAgent("clerk", model=model, tools=[pay, order, ship])


async def left(process: Process, root: Any, crash: Crash) -> Runner:
    """A process that finds what another left that was killed when the money was paid."""
    await kill(process, root, crash)
    return process(root)


PAID = ["paid 7", "cancelled", "cancelled"]


async def test_a_message_that_interrupts_what_a_dead_process_left_reads_what_was_done(process: Process) -> None:
    """A23, A32."""
    crash = Crash()
    done, clerk = shop(crash, "Yes, you paid.")
    alive = await left(process, clerk, crash)
    result = await ask(alive, "Did I pay?", config=RunConfig(when_busy="interrupt"))
    assert (result.text, done) == ("Yes, you paid.", ["pay", "order"])
    stored = await alive.store.events(key())
    assert [part.result for part in results_of(stored)] == PAID
    assert isinstance(clerk._design.model, ScriptedModel)
    heard = [part.result for message in clerk._design.model.requests[-1].messages for part in message.tool_results]
    assert heard == PAID


async def test_to_cancel_what_a_dead_process_left_tells_what_was_done(process: Process) -> None:
    """A23."""
    crash = Crash()
    _, clerk = shop(crash)
    alive = await left(process, clerk, crash)
    (invocation,) = (await alive.sessions.get(key())).head.invocations
    await alive.sessions.cancel(key(), invocation)
    stored = await alive.store.events(key())
    assert [part.result for part in results_of(stored)] == PAID
    assert [part.failed for part in results_of(stored)] == [False, True, True]


@pytest.mark.parametrize("how", ["stopped", "attempts"])
async def test_an_end_without_another_attempt_tells_what_was_done(process: Process, how: str) -> None:
    """A23: it was to be stopped when its process died, or its processes died too often."""
    crash = Crash(times=2)
    done, clerk = shop(crash)
    await kill(process, clerk, crash)
    if how == "stopped":
        (invocation,) = (await process(clerk).sessions.get(key())).head.invocations
        await process(clerk).store.leases.stop(key(), invocation)
    else:
        dying = process(clerk, store=NoHeartbeat(process(clerk).store))
        async with killed():
            attempt = asyncio.create_task(dying.recover())
            await soon(crash.reached.wait())
        await asyncio.gather(attempt, return_exceptions=True)
    alive = process(clerk, config=RunConfig(limits=Limits(attempts=2)))
    await alive.recover()
    stored = await alive.store.events(key())
    ends = [event.actions.end.reason for event in stored if event.actions.end]
    assert ends == [{"stopped": "cancelled", "attempts": "limit:attempts"}[how]]
    assert results_of(stored)[0].result == "paid 7"
    assert done == ["pay", "order"]


async def test_an_end_by_too_many_events_tells_what_was_done(process: Process) -> None:
    """A23: nothing more could be said, but what was recorded is."""
    done: list[str] = []

    @tool(last=True)
    async def ship() -> str:
        return "shipped"

    model = ScriptedModel([calls("pay"), calls("ship")])
    runner = process(LlmAgent("clerk", model=model, tools=[noted(done, "pay", "paid 7"), ship]))
    result = await ask(runner, "go", config=RunConfig(limits=Limits(events=2)))
    assert (reason(result), done) == ("limit:events", ["pay"])
    assert told(result) == ["paid 7", "shipped"]


async def test_what_was_done_in_private_is_told_in_private(process: Process) -> None:
    """A23, A41: nobody reads the result who could not read the call."""
    crash = Crash()
    done, clerk = shop(crash)

    asker = LlmAgent(
        "asker", model=ScriptedModel(calls("ask_clerk", {"message": "go"})), tools=[AgentTool("clerk")], children=[clerk]
    )
    alive = await left(process, asker, crash)
    (invocation,) = (await alive.sessions.get(key())).head.invocations
    await alive.sessions.cancel(key(), invocation)
    stored = await alive.store.events(key())
    private = {call.call_id for call in calls_of(event for event in stored if event.is_private)}
    results = {part.call_id: (part.result, event.is_private) for event in stored for part in results_of([event])}
    assert {results[id_] for id_ in private} == {("paid 7", True), ("cancelled", True)}
    assert [event.is_private for event in stored if event.actions.end] == [False]
    assert (await alive.sessions.get(key())).head.active_agent == "asker"
    assert done == ["pay", "order"]
