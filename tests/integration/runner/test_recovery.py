"""Answers whose process died, taken up by another (decision 6, A13, A20, A23, A33, A41, A42, E7)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from runner_play import UNSURE, Crash, NoHeartbeat, ask, key, kill, log, reason

from turnwise import AgentContext, Loop, Parallel, ProcessConfig, RunConfig, Runner, Sequential, agent
from turnwise.facts.errors import SessionBusy
from turnwise.facts.limits import Limits
from turnwise.facts.messages import MessageContext

Process = Callable[..., Runner]


async def test_a_new_attempt_takes_back_what_the_dead_one_left_and_keeps_its_steps(process: Process) -> None:
    """Decision 6: one final answer; recorded work is not done twice, what was said and written is."""
    crash, worked, said = Crash(), [], []

    @agent
    async def clerk(context: AgentContext) -> str:
        n = context.state.get("n", 0) + 1
        context.state["n"] = n
        said.append(n)
        await context.say(f"let me see ({n})")
        await context.step("pay", lambda: worked.append("paid"))
        await crash.here()
        return f"done {n}"

    await kill(process, clerk, crash, message_id="m")
    alive = process(clerk)
    assert await alive.recover() == 1
    assert (worked, said) == (["paid"], [1, 1])
    result = await ask(alive, "hi", message_id="m")
    assert (result.text, reason(result)) == ("let me see (1)\ndone 1", "completed")
    assert [text for _, text in await log(alive) if text] == ["hi", "let me see (1)", "done 1"]
    session = await alive.sessions.get(key())
    assert (session.state, session.head.invocations) == ({"n": 1}, {})
    stored = await alive.store.events(key(), hidden=True)
    assert [event.sequence for event in stored] == list(range(1, len(stored) + 1))
    assert [event.attempt for event in stored] == sorted(event.attempt for event in stored)
    assert await alive.recover() == 0


async def test_only_the_open_turn_is_run_again(process: Process) -> None:
    """Decision 6, A36: who handed over before is not asked again, and what it was told is told again."""
    crash, ran = Crash(), []

    @agent
    async def desk(message: str, context: AgentContext) -> str:
        ran.append(("desk", message))
        await context.say("this way")
        await crash.here()
        return "helped"

    @agent(children=[desk])
    async def door(message: str, context: AgentContext) -> str:
        ran.append(("door", message))
        await context.transfer("desk", message="the case of ada")
        return "welcome"

    await kill(process, door, crash)
    alive = process(door)
    await alive.recover()
    assert ran == [("door", "hi"), ("desk", "the case of ada"), ("desk", "the case of ada")]
    assert [text for _, text in await log(alive) if text] == ["hi", "welcome", "this way", "helped"]


async def test_a_reply_is_not_asked_for_again(process: Process) -> None:
    """A42: what was asked and answered before stands; a step of an attempt before the question is known after it."""
    before, after, worked = Crash(), Crash(), []

    @agent
    async def form(context: AgentContext) -> str:
        await context.step("draft", lambda: worked.append("drafted"))
        await before.here()
        name = (await context.ask("Your name?")).text
        await context.step("save", lambda: worked.append(name))
        await after.here()
        return f"Saved {name}"

    await kill(process, form, before)
    alive = process(form)
    await alive.recover()
    head = (await alive.sessions.get(key())).head
    assert [open_.state for open_ in head.invocations.values()] == ["waiting"]
    await kill(process, form, after, "Ada")
    await alive.recover()
    assert worked == ["drafted", "Ada"]
    assert [text for _, text in await log(alive) if text] == ["hi", "Your name?", "Ada", "Saved Ada"]


async def test_waiting_invocations_are_left_alone(process: Process) -> None:
    """Decision 6: a parallel sibling died with its process; the reply brings it back."""
    crash = Crash()

    @agent
    async def asks(context: AgentContext) -> str:
        return f"thanks, {(await context.ask('name?')).text}"

    @agent
    async def works(context: AgentContext) -> str:
        await asyncio.sleep(0.01)
        await context.say("working")
        await crash.here()
        return "worked"

    both = Parallel("both", [asks, works])
    await kill(process, both, crash)
    alive = process(both)
    assert await alive.recover() == 1
    assert await alive.recover() == 0
    assert [text for _, text in await log(alive) if text] == ["hi", "name?", "working"]
    assert sorted((await ask(alive, "Ada")).text.split("\n")) == ["thanks, Ada", "worked"]


@pytest.mark.parametrize("composite", [Sequential, Loop])
async def test_composites_run_their_open_turn_again(process: Process, composite: Any) -> None:
    """A41: with the steps of children known."""
    crash, worked = Crash(), []

    @agent
    async def one(context: AgentContext) -> str:
        await context.step("one", lambda: worked.append(1))
        return "one"

    @agent
    async def two(context: AgentContext) -> str:
        await context.step("two", lambda: worked.append(2))
        await crash.here()
        await context.escalate()
        return "two"

    line = composite("line", [one, two])
    await kill(process, line, crash)
    alive = process(line)
    await alive.recover()
    assert worked == [1, 2]
    assert [text for _, text in await log(alive) if text] == ["hi", "one", "two"]


async def test_an_agent_that_keeps_killing_its_process_is_stopped(process: Process) -> None:
    """Decision 6: after limits.attempts attempts, with a typed end; the session goes on."""
    crash = Crash(times=3)

    @agent
    async def poison(message: str) -> str:
        if message == "hi":
            await crash.here()
        return f"fine: {message}"

    await kill(process, poison, crash)
    for _ in range(2):
        limits = Limits(invocation_seconds=0.5, grace_seconds=0)
        next_ = process(poison, store=NoHeartbeat(process(poison).store), config=RunConfig(limits=limits))
        recovering = asyncio.create_task(next_.recover())
        await crash.reached.wait()
        crash.reached.clear()
        await asyncio.sleep(0.02)
        recovering.cancel()
    alive = process(poison)
    assert await alive.recover() == 1
    (end,) = [e.actions.end for e in await alive.store.events(key()) if e.actions.end]
    assert (end.reason, "3 times" in end.detail) == ("limit:attempts", True)
    assert (await ask(alive, "more")).text == "fine: more"


async def test_an_agent_that_is_gone_meanwhile_fails_the_answer(process: Process) -> None:
    """Decision 10."""
    crash = Crash()

    @agent
    async def old() -> str:
        await crash.here()
        return "never"

    @agent
    async def new(message: str) -> str:
        return f"new: {message}"

    await kill(process, old, crash, message_id="m")
    alive = process(new, process=ProcessConfig(unknown_agent_seconds=0))
    assert (await ask(alive, "more")).text == "new: more"
    assert reason(await ask(alive, "hi", message_id="m")) == "failed"


async def test_what_was_to_be_stopped_when_its_process_died_is_cancelled(process: Process) -> None:
    """A23."""
    crash = Crash()

    @agent
    async def clerk() -> str:
        await crash.here()
        return "answered after all"

    invocation = await kill(process, clerk, crash)
    alive = process(clerk)
    await alive.store.leases.stop(key(), invocation.id)
    await alive.recover()
    assert reason(await ask(alive, "hi", message_id=invocation.message_id)) == "cancelled"


@pytest.mark.parametrize("policy", ["queue", "reject", "interrupt"])
async def test_the_next_message_finds_what_a_dead_process_left(process: Process, policy: Any) -> None:
    """A32: it is answered first, or stopped by an interrupt; who rejects is told that the session is busy."""
    crash = Crash()

    @agent
    async def clerk(message: str) -> str:
        if message == "hi":
            await crash.here()
        return f"answer to {message}"

    await kill(process, clerk, crash, message_id="m")
    alive = process(clerk, config=RunConfig(when_busy=policy))
    if policy == "reject":
        with pytest.raises(SessionBusy):
            await ask(alive, "next")
        await alive.idle()
    assert (await ask(alive, "next")).text == "answer to next"
    first = await ask(alive, "hi", message_id="m")
    assert reason(first) == ("cancelled" if policy == "interrupt" else "completed")
    assert [text for _, text in await log(alive) if text][-2:] == ["next", "answer to next"]


async def test_a_clarifying_question_that_was_not_asked_is_asked(process: Process) -> None:
    """C4: the decision is in the log; the question follows from it."""

    @agent
    async def a() -> str:
        return "a"

    @agent
    async def b() -> str:
        return "b"

    @agent(children=[a, b])
    async def root() -> str:
        return "root"

    alive = process(root, **UNSURE)

    class DiesAtTheSecondWrite(NoHeartbeat):
        reached = asyncio.Event()

        async def append(self, *arguments: Any, **options: Any) -> Any:
            self.reached.set()
            await asyncio.Event().wait()

    dead_store = DiesAtTheSecondWrite(alive.store)
    dead = process(root, store=dead_store, **UNSURE)
    running = asyncio.create_task(ask(dead, "hi", message_id="m"))
    await dead_store.reached.wait()
    await asyncio.sleep(0.02)
    await alive.recover()
    result = await ask(alive, "hi", message_id="m")
    assert (result.text, reason(result)) == ("A or B?", "clarify")
    running.cancel()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


async def test_the_context_of_a_message_is_that_of_every_attempt(process: Process) -> None:
    """C20: roles and attributes."""
    crash, seen = Crash(), []

    @agent
    async def clerk(context: AgentContext) -> str:
        seen.append(context.message_context.attributes)
        await crash.here()
        return "done"

    await kill(process, clerk, crash, context=MessageContext(attributes={"customer": 7}))
    await process(clerk).recover()
    assert seen == [{"customer": 7}] * 2


async def test_a_worker_takes_up_what_is_left_until_it_is_cancelled(process: Process) -> None:
    """E7."""
    crash = Crash()

    @agent
    async def clerk() -> str:
        await crash.here()
        return "done"

    await kill(process, clerk, crash, message_id="m")
    worker = process(clerk, process=ProcessConfig(recovery_seconds=0.02))
    work = asyncio.create_task(worker.work())
    reader = await process(clerk).attach(user="ada", session="s", message_id="m")
    assert (await reader.result()).text == "done"
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    later = await process(clerk).attach(user="ada", session="s", message_id="m")
    assert (await later.result()).text == "done"


async def test_pieces_of_a_new_attempt_carry_its_number(process: Process) -> None:
    """Decision 6: a reader tells them from those of the attempt before, whose text was never stored."""
    crash, seen = Crash(), asyncio.Event()

    @agent
    async def clerk(context: AgentContext) -> None:
        async with context.stream() as answer:
            await answer.write("once ")
            await crash.here()
            await seen.wait()  # only who reads by then is shown pieces
            await answer.write("upon")

    await kill(process, clerk, crash, message_id="m")
    alive = process(clerk)
    reader = await alive.attach(user="ada", session="s", message_id="m")
    pieces = []
    async for event in reader.events():
        if event.partial:
            seen.set()
            pieces.append((event.attempt, event.text))
    assert pieces == [(2, "once "), (2, "upon")]
