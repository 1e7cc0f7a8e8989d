"""A wait that nobody answers ends on time, without a next message (behaviours A34, A42)."""

import asyncio
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest
from runner_play import Fails, InFront

from turnwise import AgentContext, Limits, RunConfig, Runner, SqlSessionStore, agent
from turnwise.dispatch.local import LocalDispatcher
from turnwise.facts.errors import StoreUnavailable
from turnwise.facts.limits import ProcessConfig
from turnwise.facts.sessions import SessionKey
from turnwise.ports.dispatcher import WorkOff
from turnwise.runner.queue import expiries
from turnwise.testing.fakes import CountingIssuer

CONFIG = RunConfig(limits=Limits(wait_seconds=0.3))
KEY = SessionKey("app", "ann", "s")
SESSIONS = 250
"""More than the recovery takes up at once."""


@agent
async def asking(context: AgentContext) -> str:
    return (await context.ask("Which?")).text


async def _ended(runner: Runner) -> list[str]:
    async with asyncio.timeout(10):
        while (await runner.sessions.get(KEY)).head.invocations:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return [event.actions.end.reason for event in await runner.sessions.events(KEY) if event.actions.end]


async def test_a_wait_ends_when_it_expires() -> None:
    runner = Runner(asking, config=CONFIG)
    try:
        waiting = await runner.start("hello", user="ann", session="s")
        assert (await waiting.result()).end is None
        assert await _ended(runner) == ["limit:wait_seconds"]
        again = await runner.start("hello again", user="ann", session="s")
        assert (await again.result()).text == "Which?"
    finally:
        await runner.close()


async def test_a_wait_that_was_answered_does_not_end_so() -> None:
    runner = Runner(asking, config=CONFIG)
    try:
        await (await runner.start("hello", user="ann", session="s")).result()
        answered = await runner.start("this", user="ann", session="s")
        assert (await answered.result()).text == "this"
        await asyncio.sleep(2 * CONFIG.limits.wait_seconds)
        assert await _ended(runner) == ["completed"]
    finally:
        await runner.close()


async def test_a_process_that_ends_leaves_the_wait_to_the_next_message(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/sessions.db"
    first = Runner(asking, store=store, config=CONFIG)
    await (await first.start("hello", user="ann", session="s")).result()
    await first.close()
    await asyncio.sleep(2 * CONFIG.limits.wait_seconds)
    second = Runner(asking, store=store, config=CONFIG)
    try:
        assert len((await second.sessions.get(KEY)).head.invocations) == 1
        await (await second.start("hello again", user="ann", session="s")).result()
        events = await second.sessions.events(KEY)
        assert [event.actions.end.reason for event in events if event.actions.end] == ["limit:wait_seconds"]
    finally:
        await second.close()


async def test_another_process_that_works_ends_it(tmp_path: Path) -> None:
    """Also without its agent, and although it never saw the session."""
    store = f"sqlite:///{tmp_path}/sessions.db"
    first = Runner(asking, store=store, config=CONFIG)
    await (await first.start("hello", user="ann", session="s")).result()
    await first.close()

    @agent
    async def other(message: str) -> str:
        return message

    second = Runner(other, store=store, process=ProcessConfig(recovery_seconds=0.05))
    working = asyncio.create_task(second.work())
    try:
        assert await _ended(second) == ["limit:wait_seconds"]
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
        await second.close()


async def test_an_error_of_the_store_does_not_end_the_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiries, "RETRY_SECONDS", 0.05)
    inner = SqlSessionStore("sqlite://")
    away = Fails(inner.leases, "expired", StoreUnavailable("It is away.", fix="Wait."), times=1)
    runner = Runner(asking, store=InFront(inner, leases=away), config=CONFIG)
    try:
        await (await runner.start("hello", user="ann", session="before")).result()  # has the timer
        await (await runner.start("hello", user="ann", session="s")).result()
        assert await _ended(runner) == ["limit:wait_seconds"]
        assert away.times == 0
    finally:
        await runner.close()


class CountingDispatcher(LocalDispatcher):
    """Counts the timers that it is asked for."""

    timers = 0

    def call_at(self, key: SessionKey, at: datetime) -> None:
        self.timers += 1
        super().call_at(key, at)


async def test_many_sessions_that_wait_cost_rows_only(tmp_path: Path) -> None:
    """E7: neither a task nor a timer each; all end when their time has come."""
    issuer, made = CountingIssuer(), list[CountingDispatcher]()

    def dispatcher(work_off: WorkOff) -> CountingDispatcher:
        made.append(CountingDispatcher(work_off, issuer.now))
        return made[-1]

    config = RunConfig(limits=Limits(wait_seconds=86_400.0))
    runner = Runner(asking, config=config, issuer=issuer, dispatcher=dispatcher)
    try:
        before = len(asyncio.all_tasks())
        for number in range(SESSIONS):
            await (await runner.start("hello", user="ann", session=f"s{number}")).result()
        await runner.idle()
        assert (len(asyncio.all_tasks()), made[0].timers) == (before, 1)
        assert await runner.recover() == 0
        issuer.advance(86_400.0)
        assert await runner.recover() == SESSIONS
        assert await runner.recover() == 0
        for number in (0, SESSIONS - 1):
            events = await runner.sessions.events(KEY._replace(id=f"s{number}"), last=1)
            assert [event.actions.end.reason for event in events if event.actions.end] == ["limit:wait_seconds"]
    finally:
        await runner.close()
