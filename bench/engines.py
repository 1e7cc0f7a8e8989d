"""Dispatchers beside each other: messages a second with one worker and with four, and the CPU of a turn."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from bench.measure import Figure

# The engine is that of the tests.
sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from restate_play import RestateServer, restate_server
from survival_play.worker import dispatcher_of

from turnwise import Runner, agent
from turnwise.dispatch.restate import RestateEngine
from turnwise.facts.limits import ProcessConfig
from turnwise.testing.postgres import new_postgres_database

ROOT = str(Path(__file__).resolve().parent.parent)
APP = "survival"
"""The app that `dispatcher_of` serves."""
TICKS = os.sysconf("SC_CLK_TCK")
WORKERS, SESSIONS = 4, 50
LOWEST_RATIO, MOST_MS, IDLE = 3.4, 3.0, 30.0


class Plan(NamedTuple):
    """How long each side runs, and for how many seconds the agent waits."""

    seconds: float = 20.0
    thinking: float = 0.05


QUICK = Plan(seconds=6.0)


class Run(NamedTuple):
    """What one side did."""

    messages: int
    seconds: float
    workers_ms: float
    """The CPU of a turn in all workers."""
    gateway_ms: float
    engine_ms: float
    idle: float
    """The share of the processors that nobody used, in percent."""

    @property
    def rate(self) -> float:
        return self.messages / self.seconds

    @property
    def turn_ms(self) -> float:
        """The CPU of a turn in all processes but the database."""
        return self.workers_ms + self.gateway_ms + self.engine_ms


async def work(url: str, thinking: float, engine: tuple[str, str, int] | None) -> None:
    """A worker: one message at a time, until its standard input ends."""

    @agent
    async def desk(message: str) -> str:
        await asyncio.sleep(thinking)
        return f"You said {message}"

    process = ProcessConfig(concurrency=1)
    runner = Runner(desk, store=url, app=APP, process=process, dispatcher=dispatcher_of(engine))
    working = asyncio.create_task(runner.work())
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    if engine is not None:
        await loop.run_in_executor(None, sys.stdin.read)
    else:
        await _send_until_told(runner)
    working.cancel()
    await runner.close()


async def _send_until_told(runner: Runner) -> None:
    """Without an engine, the process that accepts a message answers it: each worker has its own callers."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    line = await reader.readline()
    if line:
        sessions, seconds = json.loads(line)
        print(json.dumps(await _send(runner, sessions, seconds)), flush=True)
        await reader.read()


async def _send(runner: Runner, sessions: list[str], seconds: float) -> int:
    """Each session sends its next message when it has its answer. Returns how many were answered."""
    until, count = time.monotonic() + seconds, 0

    async def chat(session: str) -> None:
        nonlocal count
        while time.monotonic() < until:
            invocation = await runner.start("hello", user="ann", session=session)
            await invocation.result()
            count += time.monotonic() < until

    await asyncio.gather(*(chat(session) for session in sessions))
    return count


@asynccontextmanager
async def _worker(*arguments: object) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.engines", json.dumps(arguments)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([ROOT, *sys.path])},
    )
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        yield process
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _idle() -> tuple[float, float]:
    fields = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return fields[3] + fields[4], sum(fields[:8])


async def _side(workers: int, plan: Plan, server: RestateServer | None) -> Run:
    url, engine = new_postgres_database(), server.engine if server else None
    names = [f"s{number}" for number in range(SESSIONS)]
    async with AsyncExitStack() as stack:
        started = [await stack.enter_async_context(_worker(url, plan.thinking, engine)) for _ in range(workers)]
        await asyncio.sleep(2.0)
        pids = [process.pid for process in started]
        before, (idle, all_) = [_cpu(pid) for pid in pids], _idle()
        engine_before, gateway_before = _cpu(server.pid) if server else 0.0, time.process_time()
        if server is None:
            count = sum(await asyncio.gather(*(_ask(process, names[n::workers], plan) for n, process in enumerate(started))))
        else:
            count = await _through_engine(url, server, names, plan)
        spent = sum(_cpu(pid) for pid in pids) - sum(before)
        engine_spent = _cpu(server.pid) - engine_before if server else 0.0
        # Without an engine, the workers have callers of their own, and this process only waits.
        gateway_spent = time.process_time() - gateway_before if server else 0.0
        idle_after, all_after = _idle()
    share = 100 * (idle_after - idle) / (all_after - all_)
    workers_ms, gateway_ms, engine_ms = (1000 * seconds / count for seconds in (spent, gateway_spent, engine_spent))
    return Run(count, plan.seconds, workers_ms, gateway_ms, engine_ms, share)


async def _ask(process: asyncio.subprocess.Process, sessions: list[str], plan: Plan) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([sessions, plan.seconds]).encode() + b"\n")
    return int(await process.stdout.readline())


async def _through_engine(url: str, server: RestateServer, sessions: list[str], plan: Plan) -> int:
    gateway = Runner(_nobody, store=url, app=APP, dispatcher=RestateEngine(server.address, app=APP).dispatcher)
    try:
        return await _send(gateway, sessions, plan.seconds)
    finally:
        await gateway.close()


@agent(name="desk")
async def _nobody() -> str:
    raise AssertionError("A gateway answers nothing.")


def figures(folder: Path, plan: Plan) -> Iterator[Figure]:
    """Yields the figures of both dispatchers."""
    local = {count: asyncio.run(_side(count, plan, None)) for count in (1, WORKERS)}
    place = folder / "engines"
    place.mkdir()
    with restate_server(place) as server:
        engine = {count: asyncio.run(_side(count, plan, server)) for count in (1, WORKERS)}
    for name, runs in (("local", local), ("Restate", engine)):
        one, four = runs[1], runs[WORKERS]
        ratio, counts = four.rate / one.rate, min(one.idle, four.idle) >= IDLE
        kept = ratio >= LOWEST_RATIO if counts else None
        yield Figure(f"{name}: messages a second, 1 / {WORKERS} workers", f"{one.rate:.1f} / {four.rate:.1f}")
        yield Figure(f"{name}: ratio", f"{ratio:.2f}", "", f"≥ {LOWEST_RATIO} (counts with {IDLE:g} % idle)", kept)
        yield Figure(f"{name}: processors idle, %", f"{one.idle:.0f} / {four.idle:.0f}")
        yield Figure(f"{name}: CPU of a turn in workers, ms", f"{one.workers_ms:.1f} / {four.workers_ms:.1f}")
    run = engine[WORKERS]
    yield Figure("Restate: CPU of a turn in the gateway / the server, ms", f"{run.gateway_ms:.1f} / {run.engine_ms:.1f}")
    more = run.turn_ms - local[WORKERS].turn_ms
    yield Figure("Restate: CPU of a turn beyond local, all of them, ms", f"{more:.1f}", "", f"≤ {MOST_MS}", more <= MOST_MS)
    yield Figure("Restate: the server alone, ms", f"{run.engine_ms:.1f}", "", f"≤ {MOST_MS}", run.engine_ms <= MOST_MS)


if __name__ == "__main__":
    _url, _thinking, _engine = json.loads(sys.argv[1])
    asyncio.run(work(_url, _thinking, _engine and tuple(_engine)))
