"""Stores that fail while something is taken up or waits in line: nothing spins, wedges or starves (A21, A32, E7)."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from runner_play import Crash, Fails, Gate, Holds, InFront, ask, kill, leave_behind, soon, texts

from turnwise import AgentContext, Runner, agent
from turnwise.agents.function import FunctionAgent
from turnwise.facts.errors import StoreError, StoreFull, StoreUnavailable
from turnwise.facts.events import Event
from turnwise.facts.limits import ProcessConfig
from turnwise.facts.sessions import SessionKey

Process = Callable[..., Runner]


def crashing(crash: Crash) -> FunctionAgent:
    @agent(name="clerk")
    async def clerk(message: str) -> str:
        await crash.here()
        return f"answer to {message}"

    return clerk


async def test_a_store_that_fails_behind_another_process_is_reported_and_wedges_nothing(process: Process) -> None:
    """A21, A32: the caller sees it; what was accepted is answered, and so is the next message."""
    gate = Gate()
    one, store = process(gate.agent), process(gate.agent).store
    receipts = Fails(store.inbox, "receipt", StoreUnavailable("The store is away."), times=1)
    two = process(gate.agent, store=InFront(store, inbox=receipts))
    first = await one.start("one", user="ada", session="s")
    await gate.began.wait()
    second = await soon(two.start("two", user="ada", session="s"))
    with pytest.raises(StoreUnavailable):
        await soon(second.result())
    third = await soon(two.start("three", user="ada", session="s"))
    gate.go.set()
    await soon(first.result())
    assert (await soon(third.result())).text == "answer to three"
    assert await texts(one) == [text for n in ("one", "two", "three") for text in (n, f"answer to {n}")]


class Impatient(InFront):
    """Signals whose watchers do not wait; `pauses` is what they would have waited, and `looks` counts it."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.pauses: list[float] = []
        self.looks = asyncio.Semaphore(0)

    @contextmanager
    def watch(self, key: SessionKey) -> Iterator[Any]:
        yield self

    async def next(self, seconds: float) -> Event | None:
        self.pauses.append(seconds)
        self.looks.release()
        await asyncio.sleep(0)
        return None


@pytest.mark.parametrize("problem", [StoreFull("The disk is full."), ValueError("a bug")])
async def test_a_recovery_that_cannot_be_stored_is_tried_ever_more_rarely(process: Process, problem: Exception) -> None:
    """A21, E7: nothing spins, and who reads gets the answer when it can be stored."""
    crash = Crash()
    clerk = crashing(crash)
    await kill(process, clerk, crash, message_id="m")
    store = process(clerk).store
    signals = Impatient(store.signals)
    full = Fails(InFront(store, signals=signals), "take", problem)
    reader = await process(clerk, store=full).attach(user="ada", session="s", message_id="m")
    for _ in range(20):
        await soon(signals.looks.acquire())
    pauses = signals.pauses[:20]
    assert pauses == sorted(pauses)
    assert sum(pauses) > 20, "seconds, for 20 looks"
    assert not reader.feed.is_closed
    full.times = 0
    assert (await soon(reader.result())).text == "answer to hi"


async def test_what_stays_due_keeps_nothing_from_its_turn(process: Process) -> None:
    """Decision 6, E7: neither in what a store says is due, nor in a worker that sees some of it at a time."""
    answered = asyncio.Event()

    @agent
    async def clerk() -> str:
        answered.set()
        return "answered"

    store = process(clerk).store
    bad = Fails(store, "begin", StoreError("This one cannot be stored."), when=lambda session, *_, **__: session.id != "good")

    class Few(InFront):
        async def due(self, app: str, *, limit: int) -> Any:
            return await self._inner.due(app, limit=min(limit, 2))

    worker = process(clerk, store=InFront(bad, leases=Few(store.leases)), process=ProcessConfig(recovery_seconds=0.01))
    names = {f"bad{n}" for n in range(5)} | {"good"}
    for name in sorted(names):
        await leave_behind(worker, "hi", session=name)
    seen = {found.id for _ in range(200) for found in await store.leases.due("app", limit=2)}
    assert seen == names
    work = asyncio.create_task(worker.work())
    await soon(answered.wait())
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


@pytest.mark.parametrize("again", ["hi", "next"])
async def test_what_could_not_be_stored_is_taken_up_by_the_same_process(process: Process, again: str) -> None:
    """A21, decision 6: when it is asked again, or something else, without waiting for its own lease to run out."""
    ran: list[str] = []

    @agent
    async def clerk(message: str, context: AgentContext) -> str:
        ran.append(message)
        await context.step("pay", lambda: ran.append(f"paid for {message}"))
        return f"answer to {message}"

    away = Fails(
        process(clerk).store, "append", StoreUnavailable("The store is away."), times=1, when=lambda *_, release=False: release
    )
    runner = process(clerk, store=away, process=ProcessConfig(lease_seconds=3600))
    with pytest.raises(StoreUnavailable):
        await ask(runner, "hi", message_id="hi")
    assert (await soon(ask(runner, again, message_id=again))).text == f"answer to {again}"
    assert ran[:3] == ["hi", "paid for hi", "hi"]
    assert (await texts(runner))[:2] == ["hi", "answer to hi"]


async def test_who_reads_along_with_a_recovery_that_fails_is_told(process: Process) -> None:
    """E7: also when it fails in a way that nobody expected; the next one answers."""
    crash = Crash()
    clerk = crashing(crash)
    await kill(process, clerk, crash, message_id="m")
    broken = Holds(Fails(process(clerk).store, "take", ValueError("a bug"), times=1), "take")
    alive = process(clerk, store=broken)
    recovering = asyncio.create_task(alive.recover())
    await soon(broken.reached.wait())
    reader = await alive.attach(user="ada", session="s", message_id="m")
    broken.go.set()
    await soon(recovering)
    (told,) = await soon(asyncio.gather(reader.result(), return_exceptions=True))
    assert isinstance(told, ValueError)
    await soon(alive.recover())
    assert (await soon(ask(alive, "hi", message_id="m"))).text == "answer to hi"
    assert await texts(alive) == ["hi", "answer to hi"]
