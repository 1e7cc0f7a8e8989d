"""What a process does while it is not sure who holds the session (A33, E7, decision 3 and 6)."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runner_play import Gate, Holds, InFront, ask, key, log, one_answers_and_one_looks, soon, until
from sqlalchemy import text
from store_play import on

from turnwise import AgentContext, ProcessConfig, Runner, agent
from turnwise.facts.sessions import Session
from turnwise.ports.stores import Lease
from turnwise.stores.sql import SqlSessionStore

Process = Callable[..., Runner]


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

    inner = process(clerk("frozen")).store
    store = InFront(inner, leases=Holds(inner.leases, "renew"))
    frozen = process(clerk("frozen"), store=store, process=ProcessConfig(lease_seconds=0.1))
    invocation = await frozen.start("hi", user="ada", session="s")
    await reached.wait()
    other = process(clerk("other"))
    await until(other, lambda session: not session.held)
    await soon(other.recover())
    go.set()
    assert (await soon(invocation.result())).text == "paid by other"
    assert worked == ["other"]
    store.leases.go.set()


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


SET_CLOCK = text("UPDATE turnwise_sessions SET lease_since = lease_since - :by, lease_until = lease_until - :by")


class SteadyClock:
    """A clock that only grows. Who set the database's clock forward sees it stay behind."""

    def __init__(self) -> None:
        self.behind = 0.0

    def __call__(self) -> float:
        return time.monotonic() - self.behind


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_clock_that_is_set_costs_an_answer_no_attempt(process: Process, tmp_path: Path, hours: int) -> None:
    """A33: however often it is set while the answer's process lives, and whoever looks meanwhile."""
    gate, clock, url = Gate(), SteadyClock(), f"sqlite:///{tmp_path}/clocks.db"
    one, two = (process(gate.agent, store=SqlSessionStore(url, clock=clock)) for _ in range(2))
    invocation = await one.start("hi", user="ada", session="s")
    await gate.began.wait()
    await two.recover()
    for _ in range(4):
        clock.behind += hours * 3600
        on(url, lambda connection: connection.execute(SET_CLOCK, {"by": hours * 3600}))
        await soon(two.recover())
        session = await one.store.open(key())
        assert session is not None
        await one.store.leases.renew(session, Lease(await holder_of(url), 15.0))
    gate.go.set()
    result = await soon(invocation.result())
    assert (result.text, {event.attempt for event in result.events}) == ("answer to hi", {1})
    for runner in (one, two):
        await runner.close()


async def holder_of(url: str) -> str:
    rows: list[str] = []
    on(url, lambda connection: rows.append(connection.execute(text("SELECT lease_holder FROM turnwise_sessions")).scalar_one()))
    return rows[0]
