"""Recovery under adversity: rewinds, cancelled waits, lost leases, suspects (A23, A24, A32, A42, A44, E7)."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from runner_play import UNSURE, Crash, Holds, InFront, NoHeartbeat, ask, direct, key, kill, killed, reason, soon, texts

from turnwise import AgentContext, Runner, agent
from turnwise.agents.function import FunctionAgent
from turnwise.facts.limits import ProcessConfig
from turnwise.stores.artifacts.local import InMemoryArtifactStore

Process = Callable[..., Runner]


@agent
async def form(context: AgentContext) -> str:
    return f"Saved {(await context.ask('Your name?')).text}"


def tree(*children: FunctionAgent) -> FunctionAgent:
    return agent(name="root", children=list(children))(lambda: "root")


async def ends(runner: Runner) -> list[tuple[str, str]]:
    """The visible ends: of which invocation, and why."""
    return [(e.invocation_id, e.actions.end.reason) for e in await runner.store.events(key()) if e.actions.end]


class Looks(InFront):
    """A store that counts how often a session is opened."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.counted = asyncio.Semaphore(0)

    async def open(self, *arguments: Any, **options: Any) -> Any:
        self.counted.release()
        return await self._inner.open(*arguments, **options)

    async def more(self, times: int) -> None:
        """Returns when it was opened that many times more."""
        self.counted = asyncio.Semaphore(0)
        for _ in range(times):
            await soon(self.counted.acquire())


async def test_a_reply_after_a_rewind_knows_nothing_of_the_hidden_reply(process: Process) -> None:
    """A44, A42, decision 6: its steps are taken back with it."""
    charged: list[str] = []

    @agent
    async def charges(context: AgentContext) -> str:
        name = (await context.ask("Your name?")).text

        def charge() -> str:
            charged.append(name)
            return f"fee of {name}"

        fee = await context.step("fee", charge)
        await context.say(f"Hello {name}")
        return f"Saved {name} with {fee}"

    @agent
    async def other(message: str) -> str:
        return f"other {message}"

    runner = process(tree(charges, other))
    await ask(runner, "register", context=direct("charges"))
    between = await ask(runner, "what else?", context=direct("other"))
    await ask(runner, "Bob", context=direct("charges"))
    await runner.sessions.rewind(key(), between.invocation_id)
    assert (await ask(runner, "Ann", context=direct("charges"))).text == "Hello Ann\nSaved Ann with fee of Ann"
    assert charged == ["Bob", "Ann"]


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_wait_is_cancelled_beside_an_answer_that_goes_on(process: Process, elsewhere: bool) -> None:
    """A23, A42: whoever asks for it, what runs in the session is not disturbed, and runs once."""
    began, go, ran = asyncio.Event(), asyncio.Event(), list[str]()

    @agent
    async def slow(message: str, context: AgentContext) -> str:
        ran.append(message)
        await context.say("working")
        began.set()
        await go.wait()
        return f"slow {message}"

    root = tree(form, slow)
    looks = Looks(process(root).store)
    one = process(root, store=looks)
    two = process(root) if elsewhere else one
    wait = await ask(one, "register", context=direct("form"))
    running = await two.start("work", user="ada", session="s", context=direct("slow"))
    await began.wait()
    cancelling = asyncio.create_task(one.sessions.cancel(key(), wait.invocation_id))
    await looks.more(3)
    assert not running.feed.is_closed
    go.set()
    assert (await soon(running.result())).text == "working\nslow work"
    await soon(cancelling)
    assert ran == ["work"]
    assert (await one.sessions.get(key())).head.invocations == {}
    assert set(await ends(one)) == {(running.id, "completed"), (wait.invocation_id, "cancelled")}
    assert await texts(one) == ["register", "Your name?", "work", "working", "slow work"]


async def test_a_wait_is_cancelled_beside_what_a_dead_process_left(process: Process) -> None:
    """A23, decision 6: that is answered first, and does not take the wait's end back."""
    crash = Crash()

    @agent
    async def slow(message: str, context: AgentContext) -> str:
        await context.say("working")
        await crash.here()
        return f"slow {message}"

    root = tree(form, slow)
    alive = process(root)
    wait = await ask(alive, "register", context=direct("form"))
    left = await kill(process, root, crash, "work", context=direct("slow"), message_id="m")
    await soon(alive.sessions.cancel(key(), wait.invocation_id))
    assert (await soon(ask(alive, "work", message_id="m"))).text == "working\nslow work"
    assert (await alive.sessions.get(key())).head.invocations == {}
    assert await ends(alive) == [(left.id, "completed"), (wait.invocation_id, "cancelled")]
    assert await alive.store.leases.due("app") == []


async def test_who_reads_a_clarifying_question_whose_process_stood_still_gets_it(process: Process) -> None:
    """E7, E5: its lease was lost before it was asked; another process asked it."""

    root = tree(agent(name="a")(lambda: "a"), agent(name="b")(lambda: "b"))
    alive = process(root, **UNSURE)
    still = Holds(NoHeartbeat(process(root).store), "append")
    invocation = await process(root, store=still, **UNSURE).start("hi", user="ada", session="s")
    await soon(still.reached.wait())
    await asyncio.sleep(0.02)
    assert await soon(alive.recover()) == 1
    still.go.set()
    result = await soon(invocation.result())
    assert (result.text, reason(result)) == ("A or B?", "clarify")
    assert await texts(alive) == ["hi", "A or B?"]


async def test_a_recovery_leaves_nothing_in_the_inbox(process: Process) -> None:
    """Decision 3: neither what came while it ran, from a process that is gone by now."""
    crash, began, go = Crash(), asyncio.Event(), asyncio.Event()

    @agent
    async def clerk(message: str) -> str:
        if message == "hi":
            await crash.here()
            began.set()
            await go.wait()
        return f"answer to {message}"

    await kill(process, clerk, crash)
    alive, passing = process(clerk), process(clerk)
    recovering = asyncio.create_task(alive.recover())
    await soon(began.wait())
    await soon(passing.start("two", user="ada", session="s"))
    await soon(passing.close())
    go.set()
    assert await soon(recovering) == 1
    assert await texts(alive) == ["hi", "answer to hi", "two", "answer to two"]
    assert await alive.store.leases.due("app") == []


async def test_suspects_keep_nobody_else_from_being_answered(process: Process) -> None:
    """A32, decision 6: they are tried one at a time, and who waits for that does not take up a place."""
    crashes = {"p0": Crash(times=2), "p1": Crash(times=2)}
    began, go = asyncio.Event(), asyncio.Event()

    @agent
    async def clerk(message: str) -> str:
        if message in crashes:
            await crashes[message].here()
            began.set()
            await go.wait()
        return f"answer to {message}"

    for name, crash in crashes.items():
        await kill(process, clerk, crash, name, session=name)
    async with killed():
        dead = process(clerk, store=NoHeartbeat(process(clerk).store))
        recovering = asyncio.create_task(dead.recover())
        for crash in crashes.values():
            await soon(crash.reached.wait())
    alive = process(clerk, process=ProcessConfig(concurrency=2))
    recovering = asyncio.create_task(alive.recover())
    await soon(began.wait())
    assert (await soon(ask(alive, "normal", "other"))).text == "answer to normal"
    assert not recovering.done()
    go.set()
    assert await soon(recovering) == 2
    for name in crashes:
        assert await texts(alive, name) == [name, f"answer to {name}"]


async def test_what_a_step_wrote_outlives_its_process(process: Process) -> None:
    """A24, A28, decision 6: state and versions of artifacts, as its value does; what is temporary does not."""
    crash, artifacts, paid = Crash(), InMemoryArtifactStore(), list[str]()

    @agent
    async def clerk(context: AgentContext) -> str:
        async def pay() -> str:
            paid.append("paid")
            context.state["paid"] = True
            context.state["temp:note"] = 1
            await context.artifacts.save("receipt.txt", b"1")
            return "receipt 1"

        receipt = await context.step("pay", pay)
        await crash.here()
        return f"{receipt}, {context.state.get('paid')}, {context.state.get('temp:note')}"

    await kill(partial(process, artifacts=artifacts), clerk, crash, message_id="m")
    alive = process(clerk, artifacts=artifacts)
    await soon(alive.recover())
    assert (await soon(ask(alive, "hi", message_id="m"))).text == "receipt 1, True, None"
    assert paid == ["paid"]
    assert (await alive.sessions.get(key())).state == {"paid": True}
    visible = await alive.store.events(key())
    assert [e.actions.artifact_versions for e in visible if e.actions.artifact_versions] == [{"receipt.txt": 1}]


async def test_who_attached_behind_others_follows_as_soon_as_it_begins(process: Process) -> None:
    """E7, A23: in whatever order readers attached while several messages waited; and can cancel it."""
    began = {f"m{n}": asyncio.Event() for n in range(1, 5)}
    go = {name: asyncio.Event() for name in began}

    @agent
    async def clerk(message: str, context: AgentContext) -> str:
        await context.say(f"begin {message}")
        began[message].set()
        await go[message].wait()
        return f"answer to {message}"

    looks = Looks(process(clerk).store)
    one, two = process(clerk), process(clerk, store=looks)
    for name in began:
        await one.start(name, user="ada", session="s", message_id=name)
    last, third = [await two.attach(user="ada", session="s", message_id=name) for name in ("m4", "m3")]
    await looks.more(4)
    go["m1"].set()
    go["m2"].set()
    await soon(began["m3"].wait())

    async def first_word() -> str:
        return await anext(event.text async for event in third.events() if event.author == "clerk")

    assert await soon(first_word()) == "begin m3"
    await soon(third.cancel())
    assert reason(await third.result()) == "cancelled"
    go["m4"].set()
    assert (await soon(last.result())).text == "begin m4\nanswer to m4"


async def test_what_is_taken_back_while_it_is_found_is_not_run_again(process: Process) -> None:
    """A44, E7: the next message is answered all the same."""
    crash = Crash()

    @agent
    async def clerk(message: str) -> str:
        await crash.here()
        return f"answer to {message}"

    root = tree(clerk)
    alive = process(root)
    dead = await kill(process, root, crash, context=direct("clerk"))
    between = Holds(process(root).store, "events")
    invocation = await process(root, store=between).start("next", user="ada", session="s", context=direct("clerk"))
    await soon(between.reached.wait())
    await alive.sessions.rewind(key(), dead.id)
    between.go.set()
    assert (await soon(invocation.result())).text == "answer to next"
    assert await texts(alive) == ["next", "answer to next"]
