"""What a process tells an engine: that a session has work, once for all that waits there."""

import asyncio
from datetime import datetime

import pytest

from turnwise import Runner, SqlSessionStore, agent
from turnwise.facts.limits import ProcessConfig
from turnwise.facts.sessions import SessionKey
from turnwise.ports.dispatcher import WorkOff


class NotingDispatcher:
    """An engine that only notes what it is told."""

    is_local = works_here = False

    def __init__(self) -> None:
        self.announced: list[tuple[str, int]] = []

    def __call__(self, work_off: WorkOff) -> "NotingDispatcher":
        return self

    def announce(self, key: SessionKey, number: int) -> None:
        self.announced.append((key.id, number))

    def call_at(self, key: SessionKey, at: datetime) -> None:
        raise AssertionError("Nobody waits here.")

    async def serve(self) -> None:
        """Returns at once."""

    async def close(self) -> None:
        """Does nothing."""


@agent
async def desk(message: str) -> str:
    return f"You said {message}"


async def test_messages_that_wait_together_are_announced_once() -> None:
    """One call works all of them off, so calls do not pile up in an engine."""
    store, engine = SqlSessionStore("sqlite://"), NotingDispatcher()
    gateway, worker = Runner(desk, store=store, dispatcher=engine), Runner(desk, store=store)
    try:
        first = [await gateway.start(f"m{n}", user="ann", session="s") for n in range(3)]
        other = await gateway.start("x", user="ann", session="s-2")
        assert engine.announced == [("s", 1), ("s-2", 1)]
        assert await worker.recover() == 2
        assert [(await each.result()).text for each in (*first, other)] == [f"You said {m}" for m in ("m0", "m1", "m2", "x")]
        later = await gateway.start("later", user="ann", session="s")
        assert engine.announced[2:] == [("s", 4)], "nothing waited any more"
        await worker.recover()
        assert (await later.result()).text == "You said later"
    finally:
        await gateway.close()
        await worker.close()
        await store.close()


async def test_a_process_that_cannot_answer_announces_what_stays_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first announcement may be lost with its process or its engine."""
    monkeypatch.setattr("turnwise.runner.queue.recovery_loop.REPEAT_SECONDS", 0.05)
    store, engine = SqlSessionStore("sqlite://"), NotingDispatcher()
    gateway = Runner(desk, store=store, dispatcher=engine, process=ProcessConfig(recovery_seconds=0.01))
    await gateway.start("hello", user="ann", session="s")
    working = asyncio.create_task(gateway.work())
    try:
        async with asyncio.timeout(10):
            while ("s", 0) not in engine.announced:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await Runner(desk, store=store).recover()
        await gateway.close()
        await store.close()
