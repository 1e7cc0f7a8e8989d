"""Very many sessions that wait: what a process holds for them, and whether they end when their time has come."""

import asyncio
import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Figure, exactly

from turnwise import AgentContext, Limits, RunConfig, Runner, SqlSessionStore, agent
from turnwise.testing.fakes import CountingIssuer

SESSIONS, QUICK_SESSIONS, AT_ONCE, WAIT_SECONDS = 10_000, 500, 50, 86_400.0
PAGE = os.sysconf("SC_PAGE_SIZE")


@agent
async def asking(context: AgentContext) -> str:
    return (await context.ask("Which?")).text


def figures(folder: Path, *, quick: bool) -> Iterator[Figure]:
    """Yields the figures of one process with `local`; its clock is moved."""
    place = folder / "waits"
    place.mkdir()
    yield from asyncio.run(_waits(place, QUICK_SESSIONS if quick else SESSIONS))


async def _waits(folder: Path, sessions: int) -> list[Figure]:
    issuer = CountingIssuer()
    config = RunConfig(limits=Limits(wait_seconds=WAIT_SECONDS))
    runner = Runner(asking, store=SqlSessionStore(f"sqlite:///{folder}/s.db"), config=config, issuer=issuer)
    try:
        await _ask(runner, range(AT_ONCE))
        tasks, objects, memory = len(asyncio.all_tasks()), _objects(), _resident()
        await _ask(runner, range(AT_ONCE, AT_ONCE + sessions))
        held, more = len(asyncio.all_tasks()) - tasks, _objects() - objects
        grown = (_resident() - memory) / sessions
        issuer.advance(WAIT_SECONDS)
        began = time.monotonic()
        ended = await runner.recover()
        seconds = time.monotonic() - began
        left = len(await runner.store.leases.expired(runner.app, issuer.now()))
    finally:
        await runner.close()
    return [
        exactly(f"{sessions:,} sessions that wait: tasks held for them", held, 0),
        Figure("Python objects held for each", f"{more / sessions:.2f}", "", "≤ 0.5", more / sessions <= 0.5),
        Figure("resident memory for each, with the database's cache, bytes", f"{grown:,.0f}"),
        exactly("ended when their time had come", ended, sessions + AT_ONCE),
        exactly("left", left, 0),
        Figure("ended a second", f"{ended / seconds:,.0f}"),
    ]


async def _ask(runner: Runner, numbers: range) -> None:
    for first in range(numbers.start, numbers.stop, AT_ONCE):
        batch = range(first, min(first + AT_ONCE, numbers.stop))
        started = [await runner.start("hello", user="ann", session=f"s{number}") for number in batch]
        for invocation in started:
            await invocation.result()
    await runner.idle()


def _objects() -> int:
    gc.collect()
    return len(gc.get_objects())


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
