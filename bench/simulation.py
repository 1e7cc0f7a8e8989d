"""Many workers in one process, against a fake clock: the real runners over one store, a model of an engine and a database.

Runners, queues, leases, recovery loops and waits are those of the package. The engine is a model of a virtual object per
session. A call of the store does its real work at once and takes the time that a database would take.
"""

import asyncio
import random
import sys
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

# The event loop is that of the tests.
sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from survival_model.clock import LoopIssuer, VirtualLoop

from turnwise import Runner, SqlSessionStore, agent
from turnwise.agents.function import FunctionAgent
from turnwise.dispatch.engine import CALLS_PER_ANSWER
from turnwise.facts.errors import TurnwiseError
from turnwise.facts.limits import ProcessConfig
from turnwise.facts.sessions import SessionKey
from turnwise.ports.dispatcher import MakesDispatcher, WorkOff
from turnwise.ports.stores import SessionStore
from turnwise.stores.sql.local_signals import LocalSignals
from turnwise.stores.sql.postgres import CONNECTIONS

APP = "app"
POLL_SECONDS = 1.0
"""As on PostgreSQL, where signals come from other processes."""
ENGINE_SECONDS = 0.002
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
"""The engine's pauses between two tries of a call, as those of the Restate dispatcher."""
WORKERS_OF_A_GATEWAY = 10
WARM_SECONDS, SETTLE_SECONDS = 2.0, 60.0
NOTICED_SECONDS = 0.1
"""How long after the time of its lease some process finds another one dead."""
WRITES = frozenset({"begin", "take", "append", "accept", "refuse", "stop", "release", "create", "introduce"})


class Scene(NamedTuple):
    """What is simulated. Times are in seconds of the fake clock."""

    workers: int
    engine: bool
    rate: float = 16.0
    """Messages a second for each worker."""
    thinking: float = 3.0
    """How long an answer takes."""
    seconds: float = 1.0
    """How long messages come."""
    deaths: int = 0
    """The number of workers that die, all at once, in the middle of it."""
    lease_seconds: float = 3.0
    seed: int = 1


class Database(NamedTuple):
    """A database: how long its calls take, in seconds, and how many it does at a time."""

    cores: int = 16
    read: float = 0.0003
    write: float = 0.001
    flush: float = 0.002
    """How long a commit waits for the disk; commits share a flush."""


@dataclass
class Counts:
    """What happened."""

    calls: Counter[str] = field(default_factory=Counter)
    """The calls of the store, by name."""
    writes: int = 0
    busy: float = 0.0
    """The time of the database's cores that was used."""
    engine_calls: int = 0
    refused: int = 0
    """Those of them that a worker had no room for."""
    seconds: float = 0.0
    """How long messages came."""
    span: float = 0.0
    """How long it took until everything was answered."""
    at_end: dict[str, int] = field(default_factory=dict)
    """The calls of the store until no more messages came."""
    sent: dict[str, float] = field(default_factory=dict)
    """When each message was sent, by its id; so the others below."""
    accepted: dict[str, float] = field(default_factory=dict)
    begun: dict[str, float] = field(default_factory=dict)
    """When each message was first given to an agent."""
    finished: dict[str, float] = field(default_factory=dict)
    """When its agent had answered it."""
    broken: dict[str, float] = field(default_factory=dict)
    """When the worker died that was answering it."""

    @property
    def open(self) -> set[str]:
        """The accepted messages without an answer."""
        return self.accepted.keys() - self.finished.keys()


class _Line:
    """A process's connections to the database."""

    def __init__(self, world: "_World") -> None:
        self.world = world
        self.holders: set[str] = set()
        """Its names on leases."""
        self.answering: set[str] = set()
        self.death = asyncio.get_running_loop().create_future()
        self._free = asyncio.Semaphore(CONNECTIONS)

    @property
    def is_dead(self) -> bool:
        return self.death.done()

    def die(self) -> None:
        """From now on nothing that the process does has an effect."""
        self.death.set_result(None)

    async def live(self) -> None:
        """Returns if the process lives; otherwise never."""
        if self.is_dead:
            await asyncio.Event().wait()

    async def call(self, name: str, method: Callable[..., Any], given: tuple[Any, ...], options: dict[str, Any]) -> Any:
        counts, database = self.world.counts, self.world.database
        counts.calls[name] += 1
        is_write = name in WRITES
        counts.writes += is_write
        if name in ("begin", "take"):
            self.holders.add(given[1].holder)
        async with self._free:
            async with self.world.cores:
                seconds = database.write if is_write else database.read
                counts.busy += seconds
                await asyncio.sleep(seconds)
            await self.live()
            outcome = self._do(method(*given, **options))
            if is_write:
                await asyncio.sleep(database.flush)
        await self.live()
        if isinstance(outcome, TurnwiseError):
            raise outcome
        return outcome

    def _do(self, call: Coroutine[Any, Any, Any]) -> Any:
        loop = cast("VirtualLoop", asyncio.get_running_loop())
        try:
            return loop.finish(call)
        except TurnwiseError as problem:
            return problem


PARTS = frozenset({"inbox", "leases", "jobs", "decisions", "maintenance", "rests", "memory", "definitions", "experiments"})


class _Store:
    """The store, or a part of it, at the end of a process's line."""

    def __init__(self, line: _Line, end: Any) -> None:
        self._line, self._end = line, end

    @property
    def signals(self) -> LocalSignals:
        return self._line.world.signals

    async def close(self) -> None:
        """Other processes have it, too."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._end, name)
        if name in PARTS:
            return _Store(self._line, found)
        if not callable(found):
            return found

        async def call(*given: Any, **options: Any) -> Any:
            return await self._line.call(name, found, given, options)

        return call


class _Worker(NamedTuple):
    """A worker, as the engine knows it."""

    line: _Line
    work_off: WorkOff
    calls: "set[asyncio.Future[None]]"


class _Engine:
    """One call at a time for a session. The same pending call is one call. A refused or broken call is made again."""

    def __init__(self, world: "_World", most: int) -> None:
        self._world, self._most = world, most
        self.workers: list[_Worker] = []
        self._pending: dict[SessionKey, deque[int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def dispatcher(self, line: _Line, *, works: bool) -> MakesDispatcher:
        def make(work_off: WorkOff) -> "_Dispatcher":
            if works:
                self.workers.append(_Worker(line, work_off, set()))
            return _Dispatcher(self, works_here=works)

        return make

    def announce(self, key: SessionKey, number: int) -> None:
        pending = self._pending.get(key)
        if pending is not None:
            if number not in pending:
                pending.append(number)
            return
        self._pending[key] = deque([number])
        task = asyncio.get_running_loop().create_task(self._work_off(key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work_off(self, key: SessionKey) -> None:
        pending = self._pending[key]
        while pending:
            await self._call(key, pending[0])
            pending.popleft()
        del self._pending[key]

    async def _call(self, key: SessionKey, number: int) -> None:
        pause, counts = FIRST_PAUSE, self._world.counts
        while True:
            await asyncio.sleep(ENGINE_SECONDS)
            counts.engine_calls += 1
            worker = self._world.dice.choice([each for each in self.workers if not each.line.is_dead])
            if len(worker.calls) < self._most:
                working = asyncio.ensure_future(worker.work_off(key, number))
                worker.calls.add(working)
                try:
                    await asyncio.wait({working, worker.line.death}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    worker.calls.discard(working)
                if not worker.line.is_dead:
                    return
            else:
                counts.refused += 1
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


class _Dispatcher:
    """The engine, as a process has it."""

    is_local = False

    def __init__(self, engine: _Engine, *, works_here: bool) -> None:
        self._engine, self.works_here = engine, works_here

    def announce(self, key: SessionKey, number: int) -> None:
        self._engine.announce(key, number)

    def call_at(self, key: SessionKey, at: datetime) -> None:
        loop = asyncio.get_running_loop()
        seconds = (at - datetime(2026, 1, 1, tzinfo=UTC)).total_seconds() - loop.time()
        loop.call_later(max(0.0, seconds), self._engine.announce, key, 0)

    async def serve(self) -> None:
        """Returns at once: the engine knows its workers."""

    async def close(self) -> None:
        """Does nothing."""


class _Process(NamedTuple):
    """A worker or a gateway."""

    line: _Line
    runner: Runner


class _World:
    """All processes, the database, the engine, and what happened."""

    def __init__(self, scene: Scene, database: Database) -> None:
        self.scene, self.database = scene, database
        self.counts, self.dice = Counts(), random.Random(scene.seed)
        self.cores = asyncio.Semaphore(database.cores)
        self.signals = LocalSignals(POLL_SECONDS)
        self.store = SqlSessionStore("sqlite://")
        self._config = ProcessConfig(lease_seconds=scene.lease_seconds)
        self._engine = _Engine(self, CALLS_PER_ANSWER * self._config.concurrency) if scene.engine else None
        self._workers = [self._process(f"w{number}", works=True) for number in range(scene.workers)]
        gateways = max(1, scene.workers // WORKERS_OF_A_GATEWAY) if scene.engine else 0
        self._gateways = [self._process(f"g{number}", works=False) for number in range(gateways)]
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> Counts:
        """Sends messages, lets workers die, and returns when every accepted message is answered."""
        for process in (*self._workers, *self._gateways):
            self._start(process.runner.work())
        # Afterwards the fixed costs are those of processes that have been up for a while.
        await asyncio.sleep(WARM_SECONDS)
        self.counts.calls.clear()
        self.counts.writes, self.counts.busy = 0, 0.0
        began = self._now()
        if self.scene.deaths:
            self._start(self._die(self.scene.seconds / 2))
        await self._send()
        self.counts.seconds = self._now() - began
        self.counts.at_end = dict(self.counts.calls)
        async with asyncio.timeout(SETTLE_SECONDS):
            while self.counts.open:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        self.counts.span = self._now() - began
        return self.counts

    async def end(self) -> None:
        """Ends all tasks; no runner is closed, since the store and the clock end, too."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _process(self, name: str, *, works: bool) -> _Process:
        line = _Line(self)
        dispatcher = self._engine.dispatcher(line, works=works) if self._engine else None
        store = cast("SessionStore", _Store(line, self.store))
        issuer, desk = LoopIssuer(name), self._desk(line)
        return _Process(line, Runner(desk, store=store, app=APP, process=self._config, issuer=issuer, dispatcher=dispatcher))

    def _desk(self, line: _Line) -> FunctionAgent:
        counts, seconds = self.counts, self.scene.thinking

        @agent
        async def desk(message: str) -> str:
            line.answering.add(message)
            counts.begun.setdefault(message, self._now())
            await asyncio.sleep(seconds)
            await line.live()
            line.answering.discard(message)
            counts.finished.setdefault(message, self._now())
            return f"You said {message}"

        return desk

    async def _send(self) -> None:
        """Messages come at random moments, each in a session of its own, through gateways or the workers themselves."""
        doors = self._gateways or self._workers
        until, number = self._now() + self.scene.seconds, 0
        while True:
            await asyncio.sleep(self.dice.expovariate(self.scene.rate * self.scene.workers))
            if self._now() > until:
                return
            living = [door for door in doors if not door.line.is_dead]
            number += 1
            self._start(self._deliver(self.dice.choice(living).runner, f"m{number}"))

    async def _deliver(self, runner: Runner, id_: str) -> None:
        self.counts.sent[id_] = self._now()
        invocation = await runner.start(id_, user=f"u{id_}", session="s", message_id=id_)
        self.counts.accepted[id_] = self._now()
        await invocation.result()

    async def _die(self, after: float) -> None:
        await asyncio.sleep(after)
        for victim in self.dice.sample(self._workers, self.scene.deaths):
            victim.line.die()
            self.counts.broken |= dict.fromkeys(victim.line.answering, self._now())
            self._start(self._bury(victim.line))

    async def _bury(self, line: _Line) -> None:
        """Others find the process dead when its last heartbeat, at most a second before its death, is too old."""
        await asyncio.sleep(self.scene.lease_seconds - self.dice.random() + NOTICED_SECONDS)
        loop = cast("VirtualLoop", asyncio.get_running_loop())
        for holder in line.holders:
            loop.finish(self.store.leases.leave(holder))
        self.signals.all_changed()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def simulated(scene: Scene, database: Database) -> Counts:
    """Returns what happens in the scene."""
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    world: _World | None = None

    async def run() -> Counts:
        nonlocal world
        # Jitter of the package is random; here it is the same every time.
        random.seed(scene.seed)
        world = _World(scene, database)
        return await world.run()

    try:
        return loop.run_until_complete(run())
    finally:
        if world is not None:
            loop.run_until_complete(world.end())
        loop.close()
        asyncio.set_event_loop(None)
        if world is not None:
            asyncio.run(world.store.close())
