"""Processes that answer messages of one store, and what can be done to them. Agents go on only when their gates are opened."""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, cast

from survival_model.clock import LoopIssuer, VirtualLoop
from survival_model.programs import AGENTS, Program, Sent, brief, next_agent, step_key, words
from survival_model.wire import History, Line, Running, Wire
from turnwise import AgentContext, Event, Limits, RunConfig, Runner, SqlSessionStore, agent
from turnwise.agents.function import FunctionAgent
from turnwise.facts.errors import InvocationMissing, SessionBusy, SessionError, StaleWriter, StoreUnavailable
from turnwise.facts.limits import ProcessConfig
from turnwise.facts.messages import MessageContext
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import SessionStore
from turnwise.runner import Invocation
from turnwise.stores.sql.local_signals import LocalSignals
from turnwise.testing.session_store_cases.making import check_fold

USER_NAME = "ada"
PROCESSES = 3
LEASE_SECONDS = 600.0
POLL_SECONDS = 0.4
QUIET_SECONDS = 0.9
"""Nothing more will happen by itself when nothing was written for so long: longer than anybody here looks away."""
PATIENCE = 60
"""How many quiet times may be waited for."""
LIMITS = Limits(invocation_seconds=1e7, queue=1_000)


@dataclass
class Op:
    """Something a process was asked to do; `problem` is what it raised.

    found: what was answered in its session before. during: which claims of the history were made until it was done.
    """

    process: "Process"
    kind: str
    message: str | None
    policy: str = ""
    done: bool = False
    problem: Exception | None = None
    found: Running | None = None
    during: slice = field(default_factory=lambda: slice(0))

    @property
    def succeeded(self) -> bool:
        """Whether its caller was told so, and nothing was hidden from him."""
        return self.done and self.problem is None and not self.process.line.cut_off

    def __str__(self) -> str:
        done = repr(self.problem) if self.problem else "done" if self.done else "not done"
        return f"{self.process.name}: {self.kind} {self.message or ''} {self.policy}: {done}"


@dataclass
class Reader:
    """Who reads an answer; `whole`: of an invocation, not of one message. `found`: its last event then, if it was there."""

    process: "Process"
    message: str
    handle: Invocation
    whole: bool
    found: int = 0
    seen: list[Event] = field(default_factory=list)
    closed: bool = False
    problem: Exception | None = None


class Process:
    """A runner with agents of its own, at the end of a line to the store."""

    def __init__(self, world: "World", name: str, line: Line, *, concurrency: int) -> None:
        self.name, self.line, self.concurrency = name, line, concurrency
        self.runner = Runner(
            _agents(world, name, line),
            store=cast(SessionStore, Wire(line, line.store)),
            app=world.app,
            process=ProcessConfig(lease_seconds=LEASE_SECONDS, concurrency=concurrency),
            issuer=LoopIssuer(name),
        )
        self.handles: dict[str, Invocation] = {}

    @property
    def up(self) -> bool:
        return not self.line.dead and not self.line.frozen

    @property
    def is_odd(self) -> bool:
        """Whether what it does by itself cannot be told."""
        return not self.up or self.line.cut_off or self.line.fault is not None or self.concurrency == 1


class World:
    """Everything there is. `url` is the database of all processes; one in memory they share as one store."""

    app = "app"

    def __init__(self, loop: VirtualLoop, url: str) -> None:
        self.loop = loop
        self._stores = [SqlSessionStore(url) for _ in range(1 if url == "sqlite://" else PROCESSES)]
        self._signals = LocalSignals(POLL_SECONDS)
        self.history = History()
        self.messages: dict[str, Sent] = {}
        self.processes: list[Process] = []
        self.ops: list[Op] = []
        self.readers: list[Reader] = []
        self.expiries: dict[str, int] = {}
        self.works: list[tuple[str, str, str]] = []
        self.problems: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._gate = asyncio.Event()
        loop.set_exception_handler(lambda _loop, context: self.problems.append(f"nobody heard: {context}"))
        self._log = _Errors(self.problems)
        logging.getLogger("turnwise").addHandler(self._log)

    @property
    def store(self) -> SqlSessionStore:
        """Where one may look, beside all lines."""
        return self._stores[0]

    def key(self, session: str) -> SessionKey:
        return SessionKey(self.app, USER_NAME, session)

    def boot(self, *, pace: int = 0, repeats: bool = False, concurrency: int = 100) -> Process:
        number = len(self.processes)
        # A file's processes do not hear each other.
        signals = self._signals if len(self._stores) == 1 else LocalSignals(POLL_SECONDS)
        name, store = f"p{number}", self._stores[number % len(self._stores)]
        line = Line(name, store, signals, self.history, pace=pace, repeats=repeats)
        self.processes.append(Process(self, name, line, concurrency=concurrency))
        return self.processes[-1]

    async def quiet(self) -> None:
        """Lets everything happen that happens by itself."""
        for _ in range(PATIENCE):
            before = self.history.writes
            await asyncio.sleep(QUIET_SECONDS)
            if self.history.writes == before:
                return
        self.problems.append("the processes never stop writing")

    def sent(self, session: str, target: str, program: Program) -> Sent:
        sent = Sent(f"m{len(self.messages)}", session, target, program)
        self.messages[sent.id] = sent
        return sent

    def send(self, process: Process, sent: Sent, policy: Any) -> Op:
        op = self._do(process, "send", sent.id, self._send(process, sent, policy))
        op.policy = policy
        return op

    def cancel(self, process: Process, message: str, invocation: str) -> Op:
        key = self.key(self.messages[message].session)
        return self._do(process, "cancel", message, process.runner.sessions.cancel(key, invocation))

    def cancel_handle(self, process: Process, message: str) -> Op:
        return self._do(process, "cancel", message, process.handles[message].cancel())

    def rewind(self, process: Process, message: str, invocation: str) -> Op:
        key = self.key(self.messages[message].session)
        return self._do(process, "rewind", message, _nothing(process.runner.sessions.rewind(key, invocation)))

    def fork(self, session: str, new_id: str) -> None:
        """Forks a session that exists."""
        self.loop.finish(self.store.fork(self.key(session), new_id))

    def delete(self, session: str) -> None:
        self.loop.finish(self.store.delete(self.key(session)))

    def event_ids(self, session: str) -> list[str]:
        """The visible events of a session. AssertionError when its row is not their fold."""
        self.loop.finish(check_fold(self.store, self.key(session)))
        return [event.id for event in self.loop.finish(self.store.events(self.key(session)))]

    def recover(self, process: Process) -> Op:
        return self._do(process, "recover", None, _nothing(process.runner.recover()))

    def attach(self, process: Process, message: str, invocation: str | None) -> Op:
        return self._do(process, "attach", message, self._attach(process, message, invocation))

    def holder(self, session: str) -> Process | None:
        """The process that has the session."""
        found = self.loop.finish(self.store.open(self.key(session)))
        if found is None or found.holder is None:
            return None
        return next(p for p in self.processes if p.name == self.history.holders[found.holder])

    def expire(self, session: str) -> None:
        """Lets the holder of a session be found dead, with all that it has."""
        found = self.loop.finish(self.store.open(self.key(session)))
        if found is None or found.holder is None:
            return
        for key in self.loop.finish(self.store.list(self.app)).items:
            held = self.loop.finish(self.store.open(key.key))
            if held is not None and held.holder == found.holder:
                self.expiries[key.key.id] = self.expiries.get(key.key.id, 0) + 1
        for store in self._stores:
            self.loop.finish(store.leases.leave(found.holder))

    def chances(self, session: str) -> int:
        """How often an answer of the session may have been left alone."""
        return self.expiries.get(session, 0) + sum(process.line.cut_off for process in self.processes)

    def release(self, sent: Sent, gates: int) -> None:
        sent.released += gates
        gate, self._gate = self._gate, asyncio.Event()
        gate.set()

    async def pass_gate(self, line: Line, id_: str, stage: int) -> None:
        while self.messages[id_].released <= stage:
            await self._gate.wait()
        await line.stand()

    def work(self, process: str, session: str, invocation: str, place: str) -> str:
        """What agents do in a step: never twice once it is recorded, but by one who does not know that he lost the session."""
        self.works.append((process, invocation, place))
        running = self.history.running.get(session)
        mine = running is not None and (running.invocation, running.process) == (invocation, process)
        if mine and (invocation, place) in self.history.recorded[session]:
            self.problems.append(f"{process} did {place} of {invocation} again")
        return f"w{len(self.works)}"

    def told(self) -> list[str]:
        """What the processes were asked to do, for people to read."""
        sent = [
            f"{s.id} in {s.session} to {s.target}: {' '.join(s.program)} ({s.released} open)" for s in self.messages.values()
        ]
        return [*sent, *(str(op) for op in self.ops)]

    async def end(self) -> None:
        """Stops everything that still goes on."""
        logging.getLogger("turnwise").removeHandler(self._log)
        self.loop.set_exception_handler(lambda _loop, _context: None)
        for process in self.processes:
            process.line.closed = True
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Closes the stores, in an event loop whose time is real."""
        for store in self._stores:
            await store.close()

    def _do(self, process: Process, kind: str, message: str | None, work: Coroutine[Any, Any, None]) -> Op:
        op = Op(process, kind, message, during=slice(len(self.history.began), None))
        if message is not None:
            op.found = self.history.running.get(self.messages[message].session)
        self.ops.append(op)
        self._keep(self._watched(op, work))
        return op

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(self.loop.create_task(work))

    async def _watched(self, op: Op, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as problem:
            op.problem = problem
            if not isinstance(problem, _EXPECTED[op.kind]) and not (op.process.line.cut_off and _is_away(problem)):
                self.problems.append(f"{op.kind} of {op.message} in {op.process.name} raised {problem!r}")
        op.during = slice(op.during.start, len(self.history.began))
        op.done = True
        if op.kind in ("cancel", "rewind") and op.succeeded:
            self._check_done(op)

    def _check_done(self, op: Op) -> None:
        """Whether it is so at once when the caller is told that it is done."""
        assert op.message is not None
        key, invocation = self.key(self.messages[op.message].session), self.history.invocations.get(op.message)
        session = self.loop.finish(self.store.open(key))
        open_ = session.head.invocations.get(invocation) if session and invocation else None
        if op.kind == "rewind" and (open_ or self.loop.finish(self.store.events(key, invocation_id=invocation))):
            self.problems.append(f"not done: {op}")
        if op.kind == "cancel" and open_ is not None and open_.state == "running":
            if self.history.answering(invocation) == op.message:
                self.problems.append(f"not done: {op}")
        elif op.kind == "cancel" and invocation is None:
            receipt = self.loop.finish(self.store.inbox.receipt(key, op.message))
            if receipt is None or receipt.state != "refused":
                self.problems.append(f"not done: {op}: {receipt}")

    async def _send(self, process: Process, sent: Sent, policy: Any) -> None:
        context = MessageContext(direct_agent_id=sent.target)
        config = RunConfig(when_busy=policy, limits=LIMITS)
        self._read(
            process,
            sent.id,
            await process.runner.start(
                sent.id, user=USER_NAME, session=sent.session, message_id=sent.id, context=context, config=config
            ),
        )

    async def _attach(self, process: Process, message: str, invocation: str | None) -> None:
        where = {"message_id": message} if invocation is None else {"invocation_id": invocation}
        session = self.messages[message].session
        handle = await process.runner.attach(user=USER_NAME, session=session, **where)
        self._read(process, message, handle, whole=invocation is not None)

    def _read(self, process: Process, message: str, handle: Invocation, *, whole: bool = False) -> None:
        if not whole:
            process.handles[message] = handle
        reader = Reader(process, message, handle, whole)
        if whole:
            key, id_ = self.key(self.messages[message].session), self.history.invocations[message]
            events = self.loop.finish(self.store.events(key, invocation_id=id_))
            reader.found = events[-1].sequence or 0 if events else 0
        self.readers.append(reader)
        self._keep(_follow(reader))


_EXPECTED: dict[str, tuple[type[Exception], ...]] = {
    "send": (SessionBusy,),
    "cancel": (),
    "rewind": (SessionBusy, InvocationMissing, StaleWriter),
    "recover": (),
    "attach": (InvocationMissing,),
}


def _is_away(problem: Exception) -> bool:
    return isinstance(problem, StoreUnavailable)


async def _nothing(work: Any) -> None:
    await work


async def _follow(reader: Reader) -> None:
    try:
        async for event in reader.handle.events():
            reader.seen.append(event)
    except (SessionError, StoreUnavailable) as problem:
        reader.problem = problem
    reader.closed = True


class _Errors(logging.Handler):
    """Takes down what the runner calls a failure of its own."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._problems = problems

    def emit(self, record: logging.LogRecord) -> None:
        # An agent that fails as it was told to is no failure of the runner.
        said = record.getMessage()
        if not (said.startswith("Agent ") and " raised ValueError at " in said):
            self._problems.append(f"logged: {self.format(record)}")


def _agents(world: World, process: str, line: Line) -> FunctionAgent:
    root, *others = AGENTS
    children = [agent(name=name)(_behaviour(world, process, line)) for name in others]
    return agent(name=root, children=children)(_behaviour(world, process, line))


def _behaviour(world: World, process: str, line: Line) -> Any:
    async def perform(message: str, context: AgentContext) -> str | None:
        id_, _, place = message.partition("@")
        program, steps = world.messages[id_].program, list[str]()
        for at in range(int(place or 0), len(program)):
            await world.pass_gate(line, id_, at)
            stage, n = program[at], int(context.state.get("n", 0))
            said = words(stage, id_, at, n + (stage == "say"), steps)
            match stage:
                case "say":
                    context.state["n"] = n + 1
                    await context.say(said)
                case "count":
                    context.state["n"] = n + 1
                case "step" | "note":
                    steps.append(await _step(world, process, context, at, {"n": n + 1} if stage == "note" else {}))
                case "ask":
                    await context.ask(said)
                case "hand" | "usher":
                    await context.transfer(next_agent(context.card.name), message=brief(id_, at + 1))
                    return said if stage == "usher" else None
                case "last":
                    return said
                case _:
                    raise ValueError(said)
        return None

    return perform


async def _step(world: World, process: str, context: AgentContext, at: int, writes: dict[str, int]) -> str:
    place = f"{context.branch}:{step_key(at)}"  # type: ignore[attr-defined]

    def work() -> str:
        for key, value in writes.items():
            context.state[key] = value
        return world.work(process, context.session.id, context.invocation_id, place)

    return str(await context.step(step_key(at), work))
