"""Processes beside each other: who answers, who follows an answer, and who stops it (behaviours A32, E7)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from runner_play import Gate, NoHeartbeat, ask, key, log, reason

from turnwise import AgentContext, RunConfig, Runner, agent
from turnwise.facts.errors import InvocationMissing, SessionError
from turnwise.testing.fakes import RecordingHooks

Process = Callable[..., Runner]


async def test_who_was_not_dead_is_refused_and_its_reader_gets_the_answer_that_counts(process: Process) -> None:
    """A33, E7: a process that stood still and goes on; its late answer never shows."""
    gate, told = Gate(), RecordingHooks()
    slow = process(gate.agent, store=NoHeartbeat(process(gate.agent).store), hooks=[told])
    invocation = await slow.start("hi", user="ada", session="s")
    await gate.began.wait()
    await asyncio.sleep(0.02)

    @agent(name="gated")
    async def quick(message: str) -> str:
        return f"quick answer to {message}"

    alive = process(quick)
    await alive.recover()
    gate.go.set()
    result = await invocation.result()
    assert (result.text, reason(result)) == ("quick answer to hi", "completed")
    assert [text for _, text in await log(alive) if text] == ["hi", "quick answer to hi"]
    await slow.idle()
    assert [reason for _, reason in told.ends] == ["lost"]


async def test_one_process_stops_what_another_answers(process: Process) -> None:
    """A23: by the session, and by a handle that follows."""
    gate = Gate()
    one, two = process(gate.agent), process(gate.agent)
    for by_handle in (False, True):
        gate.began.clear()
        running = await one.start("hi", user="ada", session="s")
        await gate.began.wait()
        assert running.id is not None
        if by_handle:
            await (await two.attach(user="ada", session="s", invocation_id=running.id)).cancel()
        else:
            await two.sessions.cancel(key(), running.id)
        assert reason(await running.result()) == "cancelled"


async def test_one_process_interrupts_what_another_answers(process: Process) -> None:
    """A32."""
    gate = Gate()
    one, two = process(gate.agent), process(gate.agent)
    running = await one.start("slow", user="ada", session="s")
    await gate.began.wait()
    next_ = await two.start("next", user="ada", session="s", config=RunConfig(when_busy="interrupt"))
    assert reason(await running.result()) == "cancelled"
    gate.go.set()
    assert (await next_.result()).text == "answer to next"


async def test_readers_attach_to_what_runs_waits_in_line_or_has_ended(process: Process) -> None:
    """E7, decision 5: here and in another process, by the message or by the invocation, from any sequence number."""
    gate = Gate()
    one, two = process(gate.agent), process(gate.agent)
    first = await one.start("one", user="ada", session="s", message_id="one")
    await gate.began.wait()
    second = await one.start("two", user="ada", session="s", message_id="two")
    readers = [await r.attach(user="ada", session="s", message_id=m) for r in (one, two) for m in ("one", "two")]
    readers += [await r.attach(user="ada", session="s", invocation_id=first.id) for r in (one, two)]
    gate.go.set()
    texts = [(await reader.result()).text for reader in readers]
    assert texts == ["answer to one", "answer to two"] * 2 + ["answer to one"] * 2
    await second.result()
    for runner in (one, two):
        late = await runner.attach(user="ada", session="s", message_id="two")
        stored = [event.sequence async for event in late.events()]
        assert stored == [3, 4]
        assert [event.sequence async for event in late.events(after=3)] == [4]


async def test_who_attaches_to_what_was_never_accepted_is_told_so(process: Process) -> None:
    runner = process(Gate().agent)
    await runner.store.create(key())
    for asked in ({"message_id": "m"}, {"invocation_id": "i"}, {}):
        with pytest.raises(InvocationMissing):
            await runner.attach(user="ada", session="s", **asked)


async def test_who_attaches_to_a_refused_message_is_told_why(process: Process) -> None:
    from turnwise.facts.content import text_content
    from turnwise.facts.messages import Message

    runner = process(Gate().agent)
    await runner.store.inbox.accept(key(), Message(id="m", content=text_content("x", "user")), create=True, limit=1)
    await runner.store.inbox.refuse(key(), "m", "cancelled")
    with pytest.raises(SessionError, match="refused"):
        await (await runner.attach(user="ada", session="s", message_id="m")).result()


async def test_partial_events_reach_who_attaches_in_the_same_process(process: Process) -> None:
    """A19, decision 5: with offsets, and never a piece that the final event already holds."""
    go, shown = asyncio.Event(), asyncio.Event()

    @agent
    async def writer(context: AgentContext) -> None:
        async with context.stream() as stream:
            await stream.write("Hello ")
            shown.set()
            await go.wait()
            await stream.write("world")

    runner = process(writer)
    running = await runner.start("hi", user="ada", session="s", message_id="m")
    await shown.wait()
    attached = await runner.attach(user="ada", session="s", message_id="m")
    by_invocation = await runner.attach(user="ada", session="s", invocation_id=running.id)
    await asyncio.sleep(0.05)
    go.set()
    pieces = [(e.text, e.offset) async for e in attached.events() if e.partial]
    late = [(e.text, e.offset) async for e in by_invocation.events() if e.partial]
    assert set(pieces) <= {("Hello ", 0), ("world", 6)}
    assert set(late) <= {("world", 6)}
    assert (await attached.result()).text == "Hello world"


async def test_at_most_so_many_messages_are_answered_at_once_and_all_are_accepted(process: Process) -> None:
    """A bounded number for each process; sessions take turns."""
    from turnwise.facts.limits import ProcessConfig

    go, order = asyncio.Event(), list[str]()
    running, most = 0, 0

    @agent
    async def busy(message: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go.wait()
        order.append(message)
        await asyncio.sleep(0.001)
        running -= 1
        return message

    runner = process(busy, process=ProcessConfig(concurrency=2))
    handles = []
    for session in "abcd":
        handles += [await runner.start(f"{session}{n}", user="ada", session=session) for n in range(3)]
    go.set()
    assert [(await handle.result()).text for handle in handles] == [f"{s}{n}" for s in "abcd" for n in range(3)]
    assert most == 2
    assert set(order[:4]) == {"a0", "b0", "c0", "d0"}, "a busy session does not keep others from their turn"


async def test_a_store_that_was_away_loses_no_accepted_message(process: Process) -> None:
    """A21, decision 3: what was accepted is answered when the store is back."""
    from turnwise.facts.errors import StoreUnavailable

    class Away:
        away = False

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        async def begin(self, *arguments: Any, **options: Any) -> Any:
            if Away.away:
                raise StoreUnavailable("The store is away.")
            return await self._inner.begin(*arguments, **options)

    gate = Gate()
    runner = process(gate.agent, store=Away(process(gate.agent).store))
    first = await runner.start("one", user="ada", session="s")
    await gate.began.wait()
    second = await runner.start("two", user="ada", session="s", message_id="two")
    Away.away = True
    gate.go.set()
    await first.result()
    with pytest.raises(StoreUnavailable):
        await second.result()
    Away.away = False
    assert await runner.recover() == 1
    assert (await ask(runner, "two", message_id="two")).text == "answer to two"
