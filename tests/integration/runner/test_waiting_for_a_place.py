"""A process that is full, and what others do meanwhile with the messages that wait in it (A32, E7, decision 3)."""

import asyncio
from collections.abc import Callable
from typing import Any

from runner_play import Crash, Gate, InFront, NoHeartbeat, key, kill, killed, leave_behind, log, soon, texts

from turnwise import ProcessConfig, Runner, agent
from turnwise.facts.errors import StoreUnavailable
from turnwise.runner import Invocation

Process = Callable[..., Runner]
ONE_AT_A_TIME = ProcessConfig(concurrency=1)


@agent(name="gated")
async def quick(message: str) -> str:
    return f"quick answer to {message}"


class Full:
    """A process with room for one message, and that one is held; beside it others, over the same file."""

    def __init__(self, process: Process, **options: Any) -> None:
        self.gate = Gate()
        self.runner = process(self.gate.agent, process=ONE_AT_A_TIME, **options)

    async def filled(self) -> Runner:
        self.blocking = await self.runner.start("slow", user="ada", session="other")
        await soon(self.gate.began.wait())
        return self.runner

    async def answers(self, invocation: Invocation) -> str:
        """What a reader gets while the place is still taken."""
        text = (await soon(invocation.result())).text
        assert not self.blocking.feed.is_closed
        return text

    async def end(self) -> None:
        self.gate.go.set()
        await soon(self.blocking.result())


async def attached(runner: Runner, message_id: str) -> Invocation:
    return await runner.attach(user="ada", session="s", message_id=message_id)


async def test_readers_at_a_full_process_hear_what_another_answers(process: Process) -> None:
    """A32, E7: who sent it there, and who attached there, while the message still waited for another one."""
    full, gate = Full(process), Gate()
    one = process(gate.agent)
    runner = await full.filled()
    first = await one.start("first", user="ada", session="s")
    await soon(gate.began.wait())
    sent = await runner.start("second", user="ada", session="s", message_id="second")
    of_one = await one.start("third", user="ada", session="s", message_id="third")
    reader = await attached(runner, "third")
    gate.go.set()
    assert await full.answers(sent) == "answer to second"
    assert await full.answers(reader) == "answer to third"
    assert (await soon(of_one.result())).text == "answer to third"
    assert (await soon(first.result())).text == "answer to first"
    await full.end()


async def test_a_session_that_another_process_worked_off_is_left_alone(process: Process) -> None:
    """A32: nothing waits for a place on its behalf any more, so that it can be changed at once."""
    full = Full(process)
    runner = await full.filled()
    sent = await runner.start("hi", user="ada", session="s")
    assert await process(quick).recover() == 1
    assert await full.answers(sent) == "quick answer to hi"
    await soon(runner._loop_runtimes.current.queues.idle(key()))
    assert not full.blocking.feed.is_closed
    await full.end()
    assert await log(runner) == [("user", "hi"), ("gated", "quick answer to hi")]


async def test_a_message_that_is_cancelled_at_a_full_process_leaves_the_line(process: Process) -> None:
    """A23, A32."""
    full = Full(process)
    runner = await full.filled()
    sent = await runner.start("hi", user="ada", session="s")
    await sent.cancel()
    await soon(runner._loop_runtimes.current.queues.idle(key()))
    assert not full.blocking.feed.is_closed
    await full.end()


async def test_what_others_left_waits_for_a_place_until_another_takes_it(process: Process) -> None:
    """Decision 6: a worker that is full keeps it in its line, and gives it up to one that has room."""
    full = Full(process)
    runner = await full.filled()
    await leave_behind(runner, "left")
    recovering = asyncio.create_task(runner.recover())
    done, _ = await asyncio.wait({recovering}, timeout=0.3)
    assert not done
    gate = Gate()
    taking = asyncio.create_task(process(gate.agent).recover())
    await soon(gate.began.wait())
    assert await soon(recovering) == 1
    assert not full.blocking.feed.is_closed
    gate.go.set()
    assert await soon(taking) == 1
    await full.end()


async def test_a_full_process_answers_what_it_keeps_in_its_turn(process: Process) -> None:
    """A32: nobody else took it; looking around costs nobody the place."""
    full = Full(process)
    runner = await full.filled()
    handles = [await runner.start(f"{n}", user="ada", session="s") for n in range(3)]
    await asyncio.sleep(0.3)
    await full.end()
    assert [(await soon(handle.result())).text for handle in handles] == [f"answer to {n}" for n in range(3)]


async def test_close_answers_what_waits_for_a_place_and_leaves_the_rest(process: Process) -> None:
    """A22: what was accepted there, and not what it was about to take up from others."""
    full = Full(process)
    runner = await full.filled()
    await runner.start("mine", user="ada", session="s")
    await leave_behind(runner, "left", session="t")
    recovering = asyncio.create_task(runner.recover())
    await asyncio.sleep(0.1)
    closing = asyncio.create_task(runner.close())
    await asyncio.sleep(0)
    await full.end()
    await soon(closing)
    await asyncio.gather(recovering, return_exceptions=True)
    other = process(quick)
    assert await log(other) == [("user", "mine"), ("gated", "answer to mine")]
    assert await log(other, "t") == []


class Away(InFront):
    """A store that cannot be read for a while, for `open` alone."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.away, self.asked = False, asyncio.Event()

    async def open(self, *arguments: Any, **options: Any) -> Any:
        if self.away:
            self.asked.set()
            raise StoreUnavailable("The disk is away.")
        return await self._inner.open(*arguments, **options)


async def test_a_store_that_is_away_for_a_while_fails_nobody_who_waits_for_a_place(process: Process) -> None:
    """E7: before, nothing was read by then; it is looked at again, and the answer is found."""
    store = Away(process(quick).store)
    full = Full(process, store=store)
    runner = await full.filled()
    sent = await runner.start("hi", user="ada", session="s")
    store.away = True
    await soon(store.asked.wait())
    await asyncio.sleep(0.2)
    assert not sent.feed.is_closed
    store.away = False
    await process(quick).recover()
    assert await full.answers(sent) == "quick answer to hi"
    await full.end()


async def test_a_message_behind_a_suspect_is_heard_of_when_another_answers_it(process: Process) -> None:
    """Decision 6, A32: the suspect waits here for another suspect, and a process that waits for nobody takes it."""
    names, began, go = ("p0", "p1"), asyncio.Queue[str](), asyncio.Event()
    crashes = {name: Crash(times=2) for name in names}

    @agent(name="gated")
    async def clerk(message: str) -> str:
        if message in crashes:
            await crashes[message].here()
            began.put_nowait(message)
            await go.wait()
        return f"answer to {message}"

    for name in names:
        await kill(process, clerk, crashes[name], name, session=name)
    async with killed():
        dead = process(clerk, store=NoHeartbeat(process(clerk).store))
        recovering = asyncio.create_task(dead.recover())
        for crash in crashes.values():
            await soon(crash.reached.wait())
    alive = process(clerk)
    recovering = asyncio.create_task(alive.recover())
    runs = await soon(began.get())
    waits = next(name for name in names if name != runs)
    sent = await alive.start("next", user="ada", session=waits)
    assert await soon(process(quick).recover()) == 1
    assert (await soon(sent.result())).text == "quick answer to next"
    await soon(alive._loop_runtimes.current.queues.idle(key(waits)))
    assert not recovering.done()
    go.set()
    assert await soon(recovering) == 2
    assert await texts(alive, waits) == [waits, f"quick answer to {waits}", "next", "quick answer to next"]
    assert await texts(alive, runs) == [runs, f"answer to {runs}"]
