"""Mixed traffic on many sessions while something keeps breaking, and what is left of it."""

import asyncio
import random
import shutil
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from restate_play import RestateServer

from survival_play.checks import Findings, broken, findings
from survival_play.logs import read_logs, settled
from survival_play.processes import Crowd, ProcessGone, crowd
from survival_play.worker import Setting
from turnwise.testing.postgres import PostgresServer

Step = Callable[[str], None]
"""Says that something broke."""

SETTLE_SECONDS = 60.0


class Plan(NamedTuple):
    """How hard it is. rate: messages a second of each process. pause: seconds between two breakages, at least and at most.

    frozen: for how many seconds the last of the frozen processes stands still, at least.
    """

    processes: int = 4
    sessions: int = 50
    breakages: int = 6
    rate: float = 10.0
    pause: tuple[float, float] = (0.3, 0.9)
    ttl: float = 1.0
    seed: int = 0
    frozen: float = 0.0


class Outcome(NamedTuple):
    """What was found, what is wrong with it, how many processes there were, and for how many seconds they had traffic."""

    findings: Findings
    problems: list[str]
    processes: int
    seconds: float


Breaking = Callable[[Crowd, random.Random, Step], Awaitable[None]]


async def storm(
    url: str,
    folder: Path,
    plan: Plan,
    breaking: Breaking,
    step: Step = lambda _: None,
    engine: tuple[str, str, int] | None = None,
) -> Outcome:
    """Traffic from several processes while `breaking` goes on; then all is left to settle, and looked at.

    engine: as of `Setting`.
    """
    setting = Setting(url=url, folder=str(folder), sessions=plan.sessions, ttl=plan.ttl, attempts=20, engine=engine)
    dice = random.Random(plan.seed)
    clock = asyncio.get_running_loop().time
    async with crowd(setting) as workers:
        began = clock()
        for process in await workers.start(plan.processes):
            await process.tell("traffic", rate=plan.rate, seed=dice.randrange(2**32))
        await breaking(workers, dice, step)
        seconds = clock() - began
        problems = await _come_to_rest(workers, url)
        found = findings(await read_logs(url), workers.records)
        return Outcome(found, [*problems, *broken(found), *workers.complaints()], workers.started, seconds)


async def _come_to_rest(workers: Crowd, url: str) -> list[str]:
    """No more messages; waits until callers and sessions have their answers. Gives what did not come to rest."""
    problems = []
    try:
        async with asyncio.timeout(SETTLE_SECONDS):
            await asyncio.gather(*(process.tell("quiet") for process in workers.living))
    except TimeoutError:
        problems.append(f"callers still had no answer after {SETTLE_SECONDS:g} s")
        for process in workers.living:
            problems += await process.tell("pending")
    problems += [f"unsettled: {line}" for line in await settled(url, SETTLE_SECONDS)]
    if not problems:
        await workers.close()
    return problems


def kills(plan: Plan) -> Breaking:
    """Kills a random process at random moments, and starts another."""

    async def kill(workers: Crowd, dice: random.Random, step: Step) -> None:
        async with asyncio.TaskGroup() as replacing:
            for number in range(1, plan.breakages + 1):
                await asyncio.sleep(dice.uniform(*plan.pause))
                # Rather one that is at work: a slow machine would else see most of them killed while they start.
                working = [process for process in workers.living if process.is_ready]
                await workers.kill(dice.choice(working or workers.living))
                replacing.create_task(_replace(workers, plan, dice))
                step(f"kill {number}")
        await asyncio.sleep(plan.pause[1])

    return kill


async def _replace(workers: Crowd, plan: Plan, dice: random.Random) -> None:
    # It may be killed while it starts; then it is replaced like any other.
    with suppress(ProcessGone):
        (process,) = await workers.start()
        await process.tell("traffic", rate=plan.rate, seed=dice.randrange(2**32))


def freezes(plan: Plan) -> Breaking:
    """Stops a random process for longer than its sessions stay claimed, and lets it go on."""

    async def freeze(workers: Crowd, dice: random.Random, step: Step) -> None:
        for number in range(1, plan.breakages + 1):
            await asyncio.sleep(dice.uniform(*plan.pause))
            victim = dice.choice(workers.living)
            victim.signal(signal.SIGSTOP)
            try:
                longest = plan.frozen if number == plan.breakages else 0.0
                await asyncio.sleep(max(longest, plan.ttl + dice.uniform(*plan.pause)))
            finally:
                victim.signal(signal.SIGCONT)
            step(f"freeze {number}")
        await asyncio.sleep(plan.pause[1])

    return freeze


def outages(plan: Plan, server: PostgresServer, *, down: Sequence[float], frozen: float) -> Breaking:
    """Kills the database and starts it again, after each of so many seconds; at last freezes it for a while."""

    async def outage(workers: Crowd, dice: random.Random, step: Step) -> None:
        for seconds in down:
            await asyncio.sleep(dice.uniform(*plan.pause))
            await _in_thread(server.kill)
            await asyncio.sleep(seconds)
            await _in_thread(server.start)
            step(f"{seconds:g} s without a database")
        await asyncio.sleep(dice.uniform(*plan.pause))
        await _in_thread(server.freeze)
        try:
            await asyncio.sleep(frozen)
        finally:
            server.thaw()
        step("freeze")
        await asyncio.sleep(plan.pause[1])

    return outage


def forgetting(plan: Plan, server: RestateServer, *, down: Sequence[float]) -> Breaking:
    """Kills the engine and starts it again, after each of so many seconds; every other time its storage is gone."""

    async def forget(workers: Crowd, dice: random.Random, step: Step) -> None:
        for number, seconds in enumerate(down):
            await asyncio.sleep(dice.uniform(*plan.pause))
            await _in_thread(server.kill)
            if number % 2:
                await _in_thread(lambda: shutil.rmtree(server.storage))
            await asyncio.sleep(seconds)
            await _in_thread(server.start)
            workers.records.write("returns", of="engine")
            step(f"{seconds:g} s without an engine")
        await asyncio.sleep(plan.pause[1])

    return forget


def _in_thread(work: Callable[[], None]) -> Coroutine[Any, Any, None]:
    return asyncio.to_thread(work)
