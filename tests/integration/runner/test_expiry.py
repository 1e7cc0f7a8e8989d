"""A wait that nobody answers ends on time, without a next message (behaviours A34, A42)."""

import asyncio
from pathlib import Path

from turnwise import AgentContext, Limits, RunConfig, Runner, agent
from turnwise.facts.sessions import SessionKey

CONFIG = RunConfig(limits=Limits(wait_seconds=0.3))
KEY = SessionKey("app", "ann", "s")


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
