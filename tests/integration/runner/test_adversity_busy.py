"""A busy session under adversity: queues, leavers, late readers (A18, A19, A22, A32)."""

import asyncio
from typing import Any

import pytest
from busy_play import MakeRunner, SlowGate, state_of
from runner_play import ask, key, log, reason

from turnwise import AgentContext, agent
from turnwise.stores.sql import SqlSessionStore


class SlowInbox:
    """A store whose inbox takes a while to say that it accepted."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def inbox(self) -> Any:
        return SlowAccepting(self._inner.inbox)


class SlowAccepting(SlowInbox):
    async def accept(self, *arguments: Any, **options: Any) -> Any:
        receipt = await self._inner.accept(*arguments, **options)
        await asyncio.sleep(0.03)
        return receipt


async def test_a_caller_who_gives_up_while_being_accepted_loses_nothing(make_runner: MakeRunner) -> None:
    """A32: what is stored is also in line; the retry is the same message."""
    gate = SlowGate()
    runner = make_runner(gate.agent, store=SlowInbox(SqlSessionStore("sqlite://")))
    first = await runner.start("slow", user="ada", session="s")
    await gate.began.wait()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await runner.start("two", user="ada", session="s", message_id="two")
    gate.go.set()
    await first.result()
    assert (await ask(runner, "two", message_id="two")).text == "answer to two"
    await runner.idle()
    assert [e.text for e in await runner.store.events(key()) if e.author == "user"] == ["slow", "two"]


async def test_a_cancelled_queued_message_leaves_at_once(make_runner: MakeRunner) -> None:
    """A23, A32: while the one before it still runs; out of the line, and out of the inbox."""
    gate = SlowGate()
    runner = make_runner(gate.agent)
    first = await runner.start("slow", user="ada", session="s")
    await gate.began.wait()
    second = await runner.start("two", user="ada", session="s", message_id="two")
    third = await runner.start("three", user="ada", session="s")
    await second.cancel()
    assert reason(await second.result()) == "cancelled"
    assert not first.feed.is_closed
    assert await state_of(runner, "two") == "refused"
    gate.go.set()
    assert (await third.result()).text == "answer to three"
    assert "two" not in str(await log(runner))


async def test_many_come_and_go_and_nothing_stays_behind(make_runner: MakeRunner) -> None:
    """A32: cancelled while queued, while beginning, while running; every message has one end, none is interleaved."""

    @agent
    async def echo(message: str) -> str:
        await asyncio.sleep(0)
        return message

    runner = make_runner(echo)

    async def one(n: int) -> str:
        for _ in range(n % 7):
            await asyncio.sleep(0)
        invocation = await runner.start(str(n), user="ada", session="s")
        if n % 3 == 0:
            await asyncio.sleep(0.001 * (n % 5))
            await invocation.cancel()
        return reason(await invocation.result())

    async with asyncio.timeout(30):
        ends = await asyncio.gather(*(one(n) for n in range(60)))
    assert {end for n, end in enumerate(ends) if n % 3} == {"completed"}
    assert set(ends) <= {"completed", "cancelled"}
    assert await runner.store.inbox.queued(key()) is None
    assert (await runner.sessions.get(key())).head.invocations == {}
    open_: str | None = None
    for event in await runner.store.events(key()):
        assert (event.author == "user") == (open_ is None)
        assert open_ in (None, event.invocation_id)
        open_ = None if event.actions.end else event.invocation_id
    assert open_ is None


async def test_a_reader_who_comes_late_gets_what_is_after(make_runner: MakeRunner) -> None:
    """A19, A22: stored events above the number given; no piece of what is there whole; and then it follows."""
    shown, go = asyncio.Event(), asyncio.Event()

    @agent
    async def streams(context: AgentContext) -> str:
        await context.say("one")
        async with context.stream() as out:
            await out.write("two ")
            await out.write("whole")
        async with context.stream() as out:
            await out.write("three ")
            shown.set()
            await go.wait()
            await out.write("whole")
        return "four"

    runner = make_runner(streams)
    invocation = await runner.start("x", user="ada", session="s")
    await shown.wait()

    async def read(after: int) -> list[tuple[bool, str]]:
        return [(e.partial, e.text) async for e in invocation.events(after=after)]

    readers = [asyncio.create_task(read(after)) for after in (0, 2, 3)]
    await asyncio.sleep(0)
    go.set()
    tail = [(True, "three "), (True, "whole"), (False, "three whole"), (False, "four")]
    stored = [(False, "x"), (False, "one"), (False, "two whole")]
    assert await asyncio.gather(*readers) == [stored + tail, stored[2:] + tail, tail]
    assert await read(3) == [(False, "three whole"), (False, "four")]
    assert await read(99) == []


async def test_close_waits_for_what_runs_and_what_is_queued(make_runner: MakeRunner) -> None:
    """A22: an accepted message is answered before the stores are closed."""
    gate = SlowGate()
    runner = make_runner(gate.agent)
    first = await runner.start("slow", user="ada", session="s")
    second = await runner.start("two", user="ada", session="s")
    await gate.began.wait()
    closing = asyncio.create_task(runner.close())
    await asyncio.sleep(0.01)
    assert not closing.done()
    gate.go.set()
    await closing
    assert [(await i.result()).text for i in (first, second)] == ["answer to slow", "answer to two"]
    await runner.close()
