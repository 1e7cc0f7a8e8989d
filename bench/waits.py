"""Very many sessions that wait: what a process and an engine hold for them, and whether they end when their time has come."""

import asyncio
import gc
import json
import math
import os
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bench.measure import Figure, exactly

# The engine is that of the tests.
sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from restate_play import RestateServer, free_port, restate_server

from turnwise import AgentContext, Limits, RunConfig, Runner, SqlSessionStore, agent
from turnwise.dispatch.restate import RestateEngine, WorkerAddress
from turnwise.facts.sessions import SessionKey
from turnwise.testing.fakes import CountingIssuer

SESSIONS, QUICK_SESSIONS, AT_ONCE, WAIT_SECONDS = 10_000, 500, 50, 86_400.0
REAL_SECONDS, QUICK_REAL_SECONDS = 60.0, 10.0
"""How long sessions wait on an engine, whose clock is the real one."""
LATE_SECONDS = 5.0
"""How late a wait may end: a session that stays due is looked for after a second, and announced again after five."""
EARLY_SECONDS = 0.1
MEASURED_AT, SENT_AFTER = 0.6, 0.2
"""The part of a wait after which it is measured what the waits hold, and that in which the engine is told of the last ones."""
SETTLE_SECONDS = 900.0
APP, USERS = "waits", 10
PAGE = os.sysconf("SC_PAGE_SIZE")


@agent
async def asking(context: AgentContext) -> str:
    return (await context.ask("Which?")).text


def figures(folder: Path, *, quick: bool) -> Iterator[Figure]:
    """Yields the figures of one process with `local`; its clock is moved."""
    place = folder / "waits"
    place.mkdir()
    yield from asyncio.run(_waits(place, QUICK_SESSIONS if quick else SESSIONS))


def engine_figures(folder: Path, *, quick: bool) -> Iterator[Figure]:
    """Yields the figures of one process on a Restate server, with real waits."""
    place = folder / "engine-waits"
    place.mkdir()
    sessions, seconds = (QUICK_SESSIONS, QUICK_REAL_SECONDS) if quick else (SESSIONS, REAL_SECONDS)
    with restate_server(place) as server:
        yield from asyncio.run(_real_waits(place, server, sessions, seconds))


class _Held(NamedTuple):
    """What a process and the engine hold."""

    tasks: int
    objects: int
    bytes: int
    engine_bytes: int

    @classmethod
    def now(cls, server: RestateServer | None = None) -> "_Held":
        gc.collect()
        engine = _resident(server.pid) if server else 0
        return cls(len(asyncio.all_tasks()), len(gc.get_objects()), _resident(os.getpid()), engine)


async def _waits(folder: Path, sessions: int) -> list[Figure]:
    issuer = CountingIssuer()
    config = RunConfig(limits=Limits(wait_seconds=WAIT_SECONDS))
    runner = Runner(asking, store=SqlSessionStore(f"sqlite:///{folder}/s.db"), config=config, issuer=issuer)
    try:
        await _ask(runner, range(AT_ONCE))
        before = _Held.now()
        await _ask(runner, range(AT_ONCE, AT_ONCE + sessions))
        after = _Held.now()
        issuer.advance(WAIT_SECONDS)
        began = time.monotonic()
        ended = await runner.recover()
        seconds = time.monotonic() - began
        left = len(await runner.store.leases.expired(runner.app, issuer.now()))
    finally:
        await runner.close()
    return [
        *_held_figures(before, after, sessions),
        exactly("ended when their time had come", ended, sessions + AT_ONCE),
        exactly("left", left, 0),
        Figure("ended a second", f"{ended / seconds:,.0f}"),
    ]


def _held_figures(before: _Held, after: _Held, sessions: int) -> Iterator[Figure]:
    more = (after.objects - before.objects) / sessions
    yield exactly(f"{sessions:,} sessions that wait: tasks held for them", after.tasks - before.tasks, 0)
    yield Figure("Python objects held for each", f"{more:.2f}", "", "≤ 0.5", more <= 0.5)
    grown = (after.bytes - before.bytes) / sessions
    yield Figure("resident memory for each, with the database's cache, bytes", f"{grown:,.0f}")


async def _real_waits(folder: Path, server: RestateServer, sessions: int, seconds: float) -> list[Figure]:
    """Each session asks and waits for that long; nobody answers. The process is a gateway and a worker."""
    worker = WorkerAddress(port=free_port(), keys=(server.public_key,))
    engine = RestateEngine(server.address, app=APP, worker=worker)
    config, url = RunConfig(limits=Limits(wait_seconds=seconds)), f"sqlite:///{folder}/s.db"
    runner = Runner(asking, store=url, app=APP, config=config, dispatcher=engine.dispatcher)
    working = asyncio.create_task(runner.work())
    try:
        await server.knows(f"http://127.0.0.1:{worker.port}", working)
        await _ask(runner, range(AT_ONCE))
        await _all_ended(runner)
        before, began = _Held.now(server), time.monotonic()
        # Before the first wait ends, so that nothing else goes on while it is measured.
        asked = await _ask(runner, range(AT_ONCE, AT_ONCE + sessions), began + MEASURED_AT * seconds)
        await asyncio.sleep(SENT_AFTER * seconds)
        after, called = _Held.now(server), await asyncio.to_thread(_invocations, server)
        await _ask(runner, range(asked, AT_ONCE + sessions))
        asking_seconds = time.monotonic() - began
        await _all_ended(runner)
        left = await asyncio.to_thread(_invocations, server)
        late = [await _late(runner, number) for number in range(AT_ONCE, AT_ONCE + sessions)]
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
        await runner.close()
    late.sort()
    return [
        Figure("sessions, each of which waits / they asked a second", f"{sessions:,} / {sessions / asking_seconds:,.0f}"),
        *_held_figures(before, after, asked - AT_ONCE),
        *_engine_figures(called, before, after, asked - AT_ONCE),
        exactly("calls left in the engine afterwards", sum(left.values()), 0),
        Figure("ended how late, p50 / max s", f"{late[len(late) // 2]:.2f} / {late[-1]:.2f}", "", f"≤ {LATE_SECONDS:g}",
               late[-1] <= LATE_SECONDS),
        exactly("ended too early", sum(each < -EARLY_SECONDS for each in late), 0),
    ]  # fmt: skip


def _engine_figures(called: dict[str, int], before: _Held, after: _Held, sessions: int) -> Iterator[Figure]:
    scheduled = called.get("scheduled", 0)
    yield exactly("the engine then: calls for later", scheduled, sessions)
    yield exactly("calls that run", sum(called.values()) - scheduled, 0)
    yield Figure("memory of the engine for each, bytes", f"{(after.engine_bytes - before.engine_bytes) / sessions:,.0f}")


def _invocations(server: RestateServer) -> dict[str, int]:
    """Returns the number of the engine's calls by status."""
    body = json.dumps({"query": "SELECT status, COUNT(*) AS calls FROM sys_invocation GROUP BY status"}).encode()
    headers = {"content-type": "application/json", "accept": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{server.admin}/query", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return {row["status"]: int(row["calls"]) for row in json.load(answer)["rows"]}


async def _all_ended(runner: Runner) -> None:
    """Returns when no session waits any more."""
    async with asyncio.timeout(SETTLE_SECONDS):
        while await runner.store.leases.next_expiry(APP, datetime(2000, 1, 1, tzinfo=UTC)) is not None:  # noqa: ASYNC110
            await asyncio.sleep(1.0)


async def _late(runner: Runner, number: int) -> float:
    """Returns how many seconds after its time the wait of the session with that number ended."""
    events = await runner.sessions.events(SessionKey(APP, *_place(number)))
    waits = [event.actions.awaits for event in events if event.actions.awaits]
    due = next(wait.expires_at for wait in waits if wait.expires_at is not None)
    ended = next(event.created_at for event in events if event.actions.end and event.actions.end.reason == "limit:wait_seconds")
    return (ended - due).total_seconds()


async def _ask(runner: Runner, numbers: range, until: float = math.inf) -> int:
    """Has the sessions with these numbers ask, up to that time. Returns the number of the first one that has not."""
    first = numbers.start
    while first < numbers.stop and time.monotonic() < until:
        batch = range(first, min(first + AT_ONCE, numbers.stop))
        await asyncio.gather(*(_ask_once(runner, *_place(number)) for number in batch))
        first = batch.stop
    await runner.idle()
    return first


async def _ask_once(runner: Runner, user: str, session: str) -> None:
    await (await runner.start("hello", user=user, session=session)).result()


def _place(number: int) -> tuple[str, str]:
    """Returns the user and the session with that number. One user may not have so many."""
    return f"user-{number % USERS}", f"s{number}"


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
