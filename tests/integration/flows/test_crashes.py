"""What a run that is taken up behind a checkpoint finds: the state, its steps, and what was used up (D12, decision 6)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from flow_play import done, ended
from runner_play import Crash, NoHeartbeat, ask, direct, key, kill, killed, reason, soon, texts

from turnwise import AgentContext, Limits, LlmAgent, RunConfig, Runner, agent
from turnwise.flows.flow import Flow
from turnwise.flows.tasks import Task
from turnwise.flows.until import MaxModelCalls
from turnwise.testing.models import FunctionModel, calls

Process = Callable[..., Runner]


async def recovered(process: Process, root: Any) -> Runner:
    """A process that took up what the dead one left, and brought it to its end."""
    runner = process(root)
    await runner.recover()
    return runner


async def recovered_and_killed(process: Process, root: Any, crash: Crash) -> None:
    """A process that takes up what another left, and dies of it, too."""
    dead = process(root, store=NoHeartbeat(process(root).store))
    async with killed():
        going = asyncio.ensure_future(dead.recover())
        await soon(crash.reached.wait())
        going.cancel()
    crash.reached.clear()


def row(*agents: Any) -> Flow:
    """A flow of one task for each agent, one after the other."""
    names = [each.card.name for each in agents]
    tasks = [
        Task(name, agents=[each], depends_on=names[n - 1 : n]) for n, (name, each) in enumerate(zip(names, agents, strict=True))
    ]
    return Flow("flow", tasks)


def changing(first: Crash, third: Crash) -> Flow:
    """A flow of three agents: the first and the third may die, the second changes the state, the third reads it."""

    @agent
    async def a() -> str:
        await first.here()
        return "A"

    @agent
    async def b(context: AgentContext) -> str:
        context.state["n"] = 3
        return "B"

    @agent
    async def c(context: AgentContext) -> str:
        await third.here()
        return f"C {context.state['n']}"

    return row(a, b, c)


def counting(crash: Crash, *, aloud: bool) -> Any:
    """An agent that decides by the state and changes it, then runs a flow whose second agent changes it, and third dies."""

    @agent(children=[changing(Crash(0), crash)])
    async def outer(context: AgentContext) -> str:
        if context.state.get("n"):
            return "nothing to do"
        context.state["n"] = 1
        if aloud:
            await context.say("first visit")
        await context.delegate("flow", segment="flow")
        return f"now {context.state['n']}"

    return outer


@pytest.mark.parametrize("aloud", [True, False])
async def test_who_decided_by_the_state_decides_the_same_behind_a_checkpoint(process: Process, aloud: bool) -> None:
    """D12: it reads what was there then, whether it said what it wrote or not, and does not write it over what is newer."""
    crash = Crash()
    await kill(process, counting(crash, aloud=aloud), crash, message_id="m")
    runner = await recovered(process, counting(crash, aloud=aloud))
    said = ["hi", *(["first visit"] if aloud else []), "A", "B", "C 3", "C 3", "now 3"]
    assert await texts(runner) == said
    assert (await runner.sessions.get(key())).state == {"n": 3}


async def test_who_decided_by_the_state_decides_the_same_after_a_question(process: Process) -> None:
    """A42: what it wrote without a word before another asked."""

    @agent
    async def asks(context: AgentContext) -> str:
        return (await context.ask("Name?")).text

    @agent(children=[asks])
    async def outer(context: AgentContext) -> str:
        visits = context.state.get("visits", 0)
        context.state["visits"] = visits + 1
        await context.delegate("asks", segment="asks")
        return f"{visits} {context.state['visits']}"

    await ask(process(outer), "hi")
    assert (await ask(process(outer), "Ada")).text.endswith("0 1")
    assert (await process(outer).sessions.get(key())).state == {"visits": 1}


@pytest.mark.parametrize("crashes", [0, 1, 2])
async def test_what_a_step_wrote_is_not_written_over_newer_values(process: Process, crashes: int) -> None:
    """D12: once a checkpoint has kept what it wrote, however often the process died."""
    first, second = Crash(min(crashes, 1)), Crash(max(crashes - 1, 0))

    def outer() -> Any:
        @agent(children=[changing(first, second)])
        async def outer(context: AgentContext) -> None:
            def work() -> None:
                context.state["n"] = 1

            await context.step("work", work)
            await context.delegate("flow", segment="flow")

        return outer

    if crashes:
        await kill(process, outer(), first, message_id="m")
        if crashes > 1:
            await recovered_and_killed(process, outer(), second)
        runner = await recovered(process, outer())
    else:
        runner = process(outer())
        await ask(runner, "hi")
    assert (await runner.sessions.get(key())).state == {"n": 3}


async def test_what_a_step_wrote_is_kept_by_an_attempt_that_did_not_come_to_it(process: Process) -> None:
    """Decision 6: somebody else made a checkpoint meanwhile."""
    crashes = [Crash(), Crash()]

    def outer() -> Any:
        @agent
        async def a() -> str:
            await crashes[1].here()
            return "A"

        @agent
        async def b() -> str:
            return "B"

        @agent(children=[row(b, a)])
        async def outer(context: AgentContext) -> str:
            def work() -> None:
                context.state["n"] = 1

            if not crashes[0].reached.is_set() and "1:work" not in context.recorded:
                await context.step("work", work)
                await crashes[0].here()
            await context.delegate("flow", segment="flow")
            await context.step("work", work)
            return f"{context.state['n']}"

        return outer

    await kill(process, outer(), crashes[0], message_id="m")
    crashes[0].reached.set()
    await recovered_and_killed(process, outer(), crashes[1])
    runner = await recovered(process, outer())
    assert (await texts(runner))[-1] == "1"


def asking(asked: list[int], crash: Crash) -> Flow:
    """A flow whose first task takes four calls of its model, with a crash before the last; it may take three."""

    def reply(_request: Any) -> Any:
        asked.append(1)
        return [calls("look", {"x": str(len(asked))}) if len(asked) < 4 else done("ok")]

    def look(x: str) -> str:
        """Looks."""
        return x

    async def instructions(_context: AgentContext) -> str:
        if len(asked) == 3:
            await crash.here()
        return "Look."

    @agent
    async def never() -> str:
        return "never"

    one = LlmAgent("one", model=FunctionModel(reply), tools=[look], instructions=instructions)
    tasks = [Task("t", agents=[one]), Task("u", agents=[never], depends_on=["t"])]
    return Flow("flow", tasks, until=MaxModelCalls(3))


@pytest.mark.parametrize("crashes", [0, 1, 2])
async def test_calls_of_models_count_over_crashes(process: Process, crashes: int) -> None:
    """D12: and what they took is on record once."""
    asked: list[int] = []
    crash = Crash(crashes)
    if crashes:
        await kill(process, asking(asked, crash), crash, message_id="m")
        if crashes > 1:
            await recovered_and_killed(process, asking(asked, crash), crash)
        runner = await recovered(process, asking(asked, crash))
    else:
        runner = process(asking(asked, crash))
        await ask(runner, "hi")
    told = ended(await runner.store.events(key()))
    assert (len(asked), told["model_calls"], told["reason"]) == (4, 4, "limit:model_calls")
    every = await runner.store.events(key(), hidden=True)
    assert sum(event.actions.usage.calls for event in every if event.actions.usage) == 4


async def test_events_count_over_crashes(process: Process) -> None:
    """limits.events: of what is stored of one invocation, whichever attempt stored it."""
    crash = Crash()
    config = RunConfig(limits=Limits(events=12))

    def flow() -> Flow:
        @agent
        async def a() -> str:
            return "A"

        @agent
        async def b() -> str:
            return "B"

        @agent
        async def c(context: AgentContext) -> str:
            await crash.here()
            for n in range(5):
                await context.say(str(n))
            return "C"

        return row(a, b, c)

    await kill(process, flow(), crash, message_id="m", config=config)
    runner = await recovered(process, flow())
    events = await runner.store.events(key())
    assert events[-1].actions.end is not None
    assert events[-1].actions.end.reason == "limit:events"
    whole = await ask(runner, "again", session="other", context=direct("flow"), config=config)
    assert reason(whole) == "limit:events"
    assert len(events) <= 12 + 3, "the message, the error and the end come on top"
