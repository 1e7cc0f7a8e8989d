"""What a process does while it is not sure who holds the session (A33, E7, decision 3 and 6)."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runner_play import Gate, InFront, NoHeartbeat, ask, key, log, one_answers_and_one_looks, soon
from sqlalchemy import text
from store_play import on

from turnwise import AgentContext, ProcessConfig, Runner, agent
from turnwise.facts.sessions import Session
from turnwise.stores.sql import SqlSessionStore

Process = Callable[..., Runner]
SHORT = ProcessConfig(lease_seconds=0.6)


class Counts(InFront):
    """Keeps the texts of the messages that were to begin."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.begun: list[str] = []

    async def begin(self, session: Session, lease: Any, message: Any, *arguments: Any, **options: Any) -> Any:
        self.begun.append(message.content.text)
        return await self._inner.begin(session, lease, message, *arguments, **options)


async def test_nothing_begins_behind_an_answer_that_is_not_over(process: Process) -> None:
    """Decision 6: its process may die before the next message is written, which a new attempt would then take back."""
    gate = Gate()
    one, store = process(gate.agent), Counts(process(gate.agent).store)
    two = process(gate.agent, store=store)
    first = await one.start("one", user="ada", session="s")
    await gate.began.wait()
    second = await two.start("two", user="ada", session="s", message_id="two")
    assert store.begun == []
    receipt = await two.store.inbox.receipt(key(), "two")
    assert receipt is not None
    assert receipt.state == "queued"
    gate.go.set()
    await soon(first.result())
    assert (await soon(second.result())).text == "answer to two"
    assert [text for _, text in await log(one)] == ["one", "answer to one", "two", "answer to two"]


async def test_who_stood_still_asks_before_it_does_recorded_work(process: Process) -> None:
    """A33: another process did it meanwhile, and it is not done again."""
    reached, go, worked = asyncio.Event(), asyncio.Event(), list[str]()

    def clerk(name: str) -> Any:
        @agent(name="clerk")
        async def works(context: AgentContext) -> str:
            if name == "frozen":
                reached.set()
                await go.wait()
            await context.step("pay", lambda: worked.append(name))
            return f"paid by {name}"

        return works

    store = NoHeartbeat(process(clerk("frozen")).store)
    frozen = process(clerk("frozen"), store=store, process=ProcessConfig(lease_seconds=0.1))
    invocation = await frozen.start("hi", user="ada", session="s")
    await reached.wait()
    await soon(process(clerk("other")).recover())
    await asyncio.sleep(0.1)
    go.set()
    assert (await soon(invocation.result())).text == "paid by other"
    assert worked == ["other"]


async def test_a_message_sent_again_while_it_is_tried_reaches_both_callers(process: Process) -> None:
    """Decision 3: the first handle is put back in line behind another process, and is not forgotten."""
    gate = Gate()
    first, two, looks = await one_answers_and_one_looks(process, gate)
    callers = [asyncio.create_task(two.start("hi", user="ada", session="s", message_id="m"))]
    await soon(looks.reached.wait())
    callers.append(asyncio.create_task(two.start("hi", user="ada", session="s", message_id="m")))
    await asyncio.sleep(0.05)
    looks.go.set()
    handles = [await soon(caller) for caller in callers]
    gate.go.set()
    await soon(first.result())
    assert [(await soon(handle.result())).text for handle in handles] == ["answer to hi"] * 2
    assert (await ask(process(gate.agent), "hi", message_id="m")).text == "answer to hi"


BACK = text("UPDATE turnwise_processes SET beat = beat - :by")


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_clock_that_is_set_costs_an_answer_no_attempt(process: Process, tmp_path: Path, hours: int) -> None:
    """A33: however often it is set while the answer's process lives, and whoever looks meanwhile."""
    gate, url = Gate(), f"sqlite:///{tmp_path}/clocks.db"
    one, two = (process(gate.agent, store=SqlSessionStore(url), process=SHORT) for _ in range(2))
    invocation = await one.start("hi", user="ada", session="s")
    await gate.began.wait()
    await two.recover()
    for _ in range(4):
        on(url, lambda connection: connection.execute(BACK, {"by": hours * 3600}))
        await soon(two.recover())
        await asyncio.sleep(SHORT.lease_seconds / 2)
    gate.go.set()
    result = await soon(invocation.result())
    assert (result.text, {event.attempt for event in result.events}) == ("answer to hi", {1})
    for runner in (one, two):
        await runner.close()


async def test_who_was_found_dead_stops_and_follows_the_other(process: Process, tmp_path: Path) -> None:
    """A33, E7: while its agent still works; what the agent says then is not stored."""
    url, working, stopped = f"sqlite:///{tmp_path}/dead.db", asyncio.Event(), asyncio.Event()

    @agent(name="clerk")
    async def slow(context: AgentContext) -> str:
        working.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "late"

    @agent(name="clerk")
    async def fast(context: AgentContext) -> str:
        return "in time"

    one = process(slow, store=SqlSessionStore(url), process=SHORT)
    two = process(fast, store=SqlSessionStore(url), process=SHORT)
    invocation = await one.start("hi", user="ada", session="s")
    await soon(working.wait())
    found_dead = text("DELETE FROM turnwise_processes")
    while [event for event in await two.store.events(key()) if event.actions.end] == []:
        on(url, lambda connection: connection.execute(found_dead))
        await soon(two.recover())
    assert (await soon(invocation.result())).text == "in time"
    await soon(stopped.wait())
    assert [said for _, said in await log(two) if said] == ["hi", "in time"]
    for runner in (one, two):
        await runner.close()
