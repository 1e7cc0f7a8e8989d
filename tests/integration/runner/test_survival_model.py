"""Programs of what may happen to processes on one store, against a model of what must be true (decisions 2, 3, 6; A21, A23,
A32, A33, A34, A41, A42, A44, E7).

Messages are sent, repeated, replied to, cancelled, interrupted and rewound, sessions are forked and forks deleted in up to
three processes at a time, which crash,
stand still and go on, lose their leases and their store, and take up what others left. Everything runs on an event loop
without chance, so that a program does the same each time, and shrinks. By default 40 programs run on a file and 20 on one
store in memory, always the same ones. TURNWISE_MODEL_RUNS=2000 runs that many of each, and other ones each time;
`--hypothesis-seed=NUMBER` names them.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from survival_model.checks import View, always, finally_, look, waiting_ops
from survival_model.clock import VirtualLoop
from survival_model.programs import AGENTS, STAGES, Program
from survival_model.wire import Fault
from survival_model.world import PROCESSES, Op, Process, World

from turnwise.runner.queue.session_worker import SUSPECT_ATTEMPT

SESSIONS = ("a", "b")
RUNS = os.environ.get("TURNWISE_MODEL_RUNS")


class Do(NamedTuple):
    """One operation, a method of `Survival`. What is given as a number names one of those there are."""

    what: str
    given: dict[str, Any]
    let: str = "settle"
    """What happens after it: all that can (`settle`), a `little`, or `nothing` before the next one."""


def _do(what: str, often: int, **given: st.SearchStrategy[Any]) -> list[st.SearchStrategy[Do]]:
    lets = st.sampled_from(("settle", "settle", "little", "nothing"))
    # Not one strategy several times: that would count once.
    return [st.builds(Do, st.just(what), st.fixed_dictionaries(given), lets) for _ in range(often)]


numbers = st.integers(0, 5)
kinds = {"pace": st.sampled_from((0, 0, 1, 2)), "repeats": st.booleans(), "concurrency": st.sampled_from((100, 100, 1))}
message: dict[str, st.SearchStrategy[Any]] = {
    "session": st.sampled_from("aaab"),
    "to": st.sampled_from(AGENTS),
    "stages": st.lists(st.sampled_from(STAGES), min_size=1, max_size=5),
    "gates": st.sampled_from((0, 1, 2, 9)),
    "policy": st.sampled_from(("queue", "queue", "interrupt", "reject")),
}
operations = st.one_of(
    *_do("send", 7, p=numbers, **message),
    *_do("open_gates", 3, m=numbers, gates=st.sampled_from((1, 2, 9))),
    *_do("send_again", 1, p=numbers, m=numbers, policy=message["policy"]),
    *_do("lease_runs_out", 2, session=message["session"]),
    *_do("recover", 2, p=numbers),
    *_do("holder_is_gone", 2, session=message["session"], frozen=st.booleans(), p=numbers),
    *_do("crash", 1, p=numbers),
    *_do("freeze_or_thaw", 1, p=numbers),
    *_do(
        "goes_wrong",
        1,
        p=numbers,
        fault=st.sampled_from(("crash", "freeze", "outage")),
        writes=st.integers(0, 3),
        after=st.booleans(),
    ),
    *_do("boot", 1, **kinds),
    *_do("cancel", 2, p=numbers, m=numbers, by_handle=st.booleans()),
    *_do("rewind", 2, p=numbers, m=numbers),
    *_do("fork", 1, session=message["session"], f=numbers),
    *_do("delete_fork", 1, f=numbers),
    *_do("attach", 1, p=numbers, m=numbers, whole=st.booleans()),
    *_do("time_passes", 1, seconds=st.sampled_from((0.1, 1.0, 250.0))),
)


class Survival:
    """What a program of operations does to processes on one store."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._settled = True
        self._must_stop: list[tuple[Op, str, int]] = []
        """Messages that must not be answered to their end once that is promised, and how many of their gates were open then."""
        self._rejects: tuple[Op, bool] | None = None
        """What was just sent by who does not wait, and whether the session was busy."""
        self._recovers: Process | None = None
        """Who was just told to take up what is left."""
        self._forks: dict[str, list[str]] = {}
        """The events of each fork. Nothing that happens to its source changes them."""
        self._forked = 0

    async def run(self, first: dict[str, Any], program: Sequence[Do]) -> None:
        """Does it all, lets everything come to its end, and raises AssertionError for the first thing that is wrong."""
        self._world.boot(**first)
        self._world.boot()
        for do in program:
            doing = getattr(self, do.what)(**do.given)
            if doing is not None:
                await doing
            await self._go_on(do.let)
        await self._drain()

    def send(self, p: int, session: str, stages: list[str], to: str, gates: int, policy: str) -> None:
        sent = self._world.sent(session, to, _program(stages))
        self._world.release(sent, gates)
        running = self._world.history.running.get(session)
        stops = running.message if running is not None and policy == "interrupt" else None
        process = self._up(p)
        # Who does not know that he lost the session is busy with it still.
        knows = not process.is_odd and (process.name, session) not in self._world.history.lost
        sure = policy == "reject" and self._settled and knows
        busy = sure and (view := look(self._world, session)) is not None and view.is_busy
        op = self._world.send(process, sent, policy)
        self._promise(op, stops)
        self._rejects = (op, busy) if sure else None

    def send_again(self, p: int, m: int, policy: str) -> None:
        if id_ := self._message(m):
            self._world.send(self._up(p), self._world.messages[id_], policy)

    def open_gates(self, m: int, gates: int) -> None:
        if id_ := self._message(m):
            self._world.release(self._world.messages[id_], gates)

    def goes_wrong(self, p: int, fault: str, writes: int, after: bool) -> None:
        self._up(p).line.fault = Fault(fault, writes, after)

    def crash(self, p: int) -> None:
        self._up(p).line.die()

    def freeze_or_thaw(self, p: int) -> None:
        alive = [process.line for process in self._world.processes if not process.line.dead]
        line = alive[p % len(alive)] if alive else self._up(0).line
        (line.thaw if line.frozen else line.freeze)()

    def boot(self, pace: int, repeats: bool, concurrency: int) -> None:
        if sum(not process.line.dead for process in self._world.processes) < PROCESSES:
            self._world.boot(pace=pace, repeats=repeats, concurrency=concurrency)

    def lease_runs_out(self, session: str) -> None:
        self._world.expire(session)

    def holder_is_gone(self, session: str, frozen: bool, p: int) -> None:
        holder = self._world.holder(session)
        if holder is not None:
            (holder.line.freeze if frozen else holder.line.die)()
            self._world.expire(session)
            self.recover(p)

    def recover(self, p: int) -> None:
        process = self._up(p)
        self._recovers = process if self._settled else None
        self._world.recover(process)

    def cancel(self, p: int, m: int, by_handle: bool) -> None:
        world, process, id_ = self._world, self._up(p), self._message(m)
        invocation = world.history.invocations.get(id_)
        if id_ not in process.handles if by_handle else invocation is None:
            return
        running = world.history.running.get(world.messages[id_].session)
        stops = id_ if running is not None and running.message == id_ else None
        cancelling = world.cancel_handle(process, id_) if by_handle else world.cancel(process, id_, str(invocation))
        self._promise(cancelling, stops)

    def rewind(self, p: int, m: int) -> None:
        began = [*self._world.history.invocations.items()][::-1]
        if began:
            self._world.rewind(self._up(p), *began[m % len(began)])

    def fork(self, session: str, f: int) -> None:
        """Forks a session, or one of its forks."""
        source = sorted(self._forks)[f] if f < len(self._forks) else session
        if source in self._forks or look(self._world, session) is not None:
            self._forked += 1
            new_id = f"fork {self._forked:02}"
            self._world.fork(source, new_id)
            self._forks[new_id] = self._world.event_ids(new_id)

    def delete_fork(self, f: int) -> None:
        if f < len(self._forks):
            deleted = sorted(self._forks)[f]
            del self._forks[deleted]
            self._world.delete(deleted)

    def attach(self, p: int, m: int, whole: bool) -> None:
        if id_ := self._message(m):
            self._world.attach(self._up(p), id_, self._world.history.invocations.get(id_) if whole else None)

    async def time_passes(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _go_on(self, let: str) -> None:
        if let == "settle":
            await self._world.quiet()
        elif let == "little":
            await asyncio.sleep(0.01)
        self._settled = let == "settle"
        self._check(self._unexpected() if self._settled else ())
        self._rejects = self._recovers = None

    async def _drain(self) -> None:
        """Lets everything come to its end: first what is to be stopped, then what goes on; then all must be right."""
        world = self._world
        for process in world.processes:
            process.line.calm()
        last = world.boot()
        await self._take_up(last)
        self._check([*self._unstopped(everywhere=True), *self._left("")])
        for sent in world.messages.values():
            world.release(sent, len(sent.program))
        for session in SESSIONS:
            world.release(sent := world.sent(session, "front", ("say", "last")), 2)
            world.send(last, sent, "queue")
        await self._take_up(last)
        self._check(finally_(world, self._views()))

    async def _take_up(self, last: Process) -> None:
        for _ in range(4):
            for session in SESSIONS:
                holder = self._world.holder(session)
                if holder is not None and (holder.line.dead or holder.line.cut_off):
                    self._world.expire(session)
            self._world.recover(last)
            await self._go_on("settle")

    def _unexpected(self) -> Iterator[str]:
        """What is not as it must be once everything has happened that can."""
        world = self._world
        yield from waiting_ops(world)
        yield from self._unstopped(everywhere=False)
        if self._rejects is not None and (self._rejects[0].problem is not None) != self._rejects[1]:
            yield f"the session was busy: {self._rejects[1]}; {self._rejects[0]}"
        if self._recovers is not None and not self._recovers.is_odd:
            yield from (f"{self._recovers.name} recovered, but {line}" for line in self._left(self._recovers.name))

    def _left(self, process: str) -> Iterator[str]:
        """What nobody sees to; a process that lost the session, or its lease, may still be busy with what it had, and of what
        may be what kills processes it runs one at a time.
        """
        history, views = self._world.history, self._views()
        tries = [view for view in views if not process or _runs_at(history.running.get(view.session.id), process)]
        here = [view.walk.running for view in tries]
        suspected = any(answer is not None and answer.attempt >= SUSPECT_ATTEMPT for answer in here)
        for view in views:
            session, left = view.session, view.walk.running
            busy = (process, session.id) in history.lost or _runs_at(history.running.get(session.id), process)
            busy = busy or (suspected and left is not None and left.attempt + 1 >= SUSPECT_ATTEMPT)
            if session.holder is None and view.is_busy and not busy:
                yield f"nobody has {session.id}: {session.queued} are queued, {view.walk.running} runs"

    def _unstopped(self, *, everywhere: bool) -> Iterator[str]:
        """Messages whose stop was promised, and that go on; those whose process cannot know yet only if `everywhere`."""
        world = self._world
        stopped = {id_ for op, id_, gates in self._must_stop if op.succeeded and world.messages[id_].released == gates}
        for view in self._views():
            holder = world.holder(view.session.id)
            for id_ in stopped & {*view.walk.fates}:
                knows = everywhere or (holder is not None and not holder.is_odd)
                if view.walk.fates[id_] == "completed" or (view.walk.fates[id_] == "running" and knows):
                    yield f"{id_} was to be stopped, and is {view.walk.fates[id_]}"

    def _promise(self, op: Op, message: str | None) -> None:
        if message is not None and self._settled and not self._world.messages[message].free:
            self._must_stop.append((op, message, self._world.messages[message].released))

    def _check(self, more: Iterable[str] = ()) -> None:
        problems = [*self._world.problems, *self._world.history.problems]
        for view in self._views():
            problems += (f"{view.session.id}: {line}" for line in always(self._world, view, settled=self._settled))
        if self._settled:
            problems += (f"{id_} changed" for id_, events in self._forks.items() if self._world.event_ids(id_) != events)
        problems += more
        if problems:
            raise AssertionError("\n".join(["", *problems, *self._world.told(), *(v.told() for v in self._views())]))

    def _views(self) -> list[View]:
        return [view for session in SESSIONS if (view := look(self._world, session)) is not None]

    def _up(self, number: int) -> Process:
        """One of the processes that are up; there always is one."""
        up = [process for process in self._world.processes if process.up]
        return up[number % len(up)] if up else self._world.boot()

    def _message(self, number: int) -> str:
        """One of the newest messages; "" when there is none."""
        messages = [*self._world.messages][::-1]
        return messages[number % len(messages)] if messages else ""


def _runs_at(running: Any, process: str) -> bool:
    return running is not None and running.process == process


def _program(stages: list[str]) -> Program:
    """The stages up to the first that ends a turn for good."""
    ends = [at for at, stage in enumerate(stages) if stage in ("last", "fail")]
    return tuple(stages[: ends[0] + 1] if ends else stages)


def survive(first: dict[str, Any], program: Sequence[Do], *, in_memory: bool) -> None:
    """Runs a program on a store of its own."""
    # Nothing here has to survive a loss of power.
    fast = Path("/dev/shm")
    folder = tempfile.mkdtemp(dir=fast if fast.is_dir() and os.access(fast, os.W_OK) else None)
    loop = VirtualLoop()
    world = World(loop, "sqlite://" if in_memory else f"sqlite:///{folder}/s.db")
    try:
        loop.run_until_complete(Survival(world).run(first, program))
    finally:
        loop.run_until_complete(world.end())
        loop.close()
        asyncio.run(world.close())
        shutil.rmtree(folder, ignore_errors=True)  # SQLite may be removing its files itself


def _many(runs: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    bounds = settings(
        max_examples=int(RUNS) if RUNS else runs,
        derandomize=RUNS is None,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=[*HealthCheck],
    )
    programs = st.lists(operations, min_size=8, max_size=26)
    return lambda test: bounds(given(first=st.fixed_dictionaries(kinds), program=programs)(test))


@_many(40)
def test_processes_on_a_file_do_what_the_model_says(first: dict[str, Any], program: list[Do]) -> None:
    survive(first, program, in_memory=False)


@_many(20)
def test_processes_that_share_a_store_in_memory_do_what_the_model_says(first: dict[str, Any], program: list[Do]) -> None:
    survive(first, program, in_memory=True)


def test_a_rewind_keeps_out_who_held_the_session_before() -> None:
    """A33, A44: whoever lost its lease while its answer was taken back does not get it again by renewing it."""
    send = {"p": 0, "session": "a", "to": "front", "stages": ["say"], "gates": 0, "policy": "queue"}
    program = [
        Do("send", send, "settle"),
        Do("send", send, "settle"),
        Do("lease_runs_out", {"session": "a"}, "settle"),
        Do("rewind", {"p": 1, "m": 1}, "settle"),
        Do("time_passes", {"seconds": 250.0}, "settle"),
    ]
    survive({"pace": 0, "repeats": False, "concurrency": 100}, program, in_memory=False)


def test_an_interrupt_holds_also_when_its_process_dies_over_it() -> None:
    """A32: who was told that a message interrupts is not to see the interrupted one answered by whoever recovers it."""
    send = {"p": 0, "session": "a", "to": "front", "stages": ["say"], "gates": 0, "policy": "queue"}
    for writes in range(1, 4):
        program = [
            Do("send", send, "settle"),
            Do("goes_wrong", {"p": 0, "fault": "crash", "writes": writes, "after": False}, "settle"),
            Do("send", send | {"policy": "interrupt"}, "settle"),
        ]
        survive({"pace": 0, "repeats": False, "concurrency": 100}, program, in_memory=True)


def test_an_interrupt_reaches_who_answers_now_also_from_who_lost_the_session() -> None:
    """A32, A44: who still works at what was taken back stops that, and whoever has the session stops its own."""
    send = {"p": 0, "session": "a", "to": "front", "stages": ["say"], "gates": 0, "policy": "queue"}
    program = [
        Do("send", send | {"gates": 1}, "settle"),
        Do("send", send | {"p": 1}, "settle"),
        Do("send", send, "settle"),
        Do("lease_runs_out", {"session": "a"}, "little"),
        Do("rewind", {"p": 0, "m": 0}, "settle"),
        Do("send", send | {"p": 1, "policy": "interrupt"}, "settle"),
    ]
    survive({"pace": 0, "repeats": False, "concurrency": 100}, program, in_memory=False)


def test_of_two_that_may_kill_processes_one_waits_for_the_other() -> None:
    """Decision 6: at their third attempt they run one at a time, and the second keeps its turn."""
    send = {"p": 0, "session": "a", "to": "front", "stages": ["say"], "gates": 0, "policy": "queue"}
    program = [
        Do("send", send, "settle"),
        Do("send", send | {"session": "b"}, "settle"),
        Do("lease_runs_out", {"session": "b"}, "settle"),
        Do("holder_is_gone", {"session": "a", "frozen": False, "p": 0}, "settle"),
        Do("crash", {"p": 0}, "settle"),
        Do("recover", {"p": 0}, "settle"),
    ]
    survive({"pace": 0, "repeats": False, "concurrency": 100}, program, in_memory=False)


def test_who_does_not_know_that_the_session_is_lost_is_busy_with_it() -> None:
    """A32: until its next look at its lease."""
    send = {"p": 0, "session": "a", "to": "front", "stages": ["say"], "gates": 0, "policy": "queue"}
    program = [
        Do("send", send | {"p": 1}, "settle"),
        Do("lease_runs_out", {"session": "a"}, "settle"),
        Do("rewind", {"p": 0, "m": 0}, "settle"),
        Do("send", send, "settle"),
        Do("open_gates", {"m": 0, "gates": 1}, "settle"),
        Do("send", send | {"p": 1, "policy": "reject"}, "settle"),
    ]
    survive({"pace": 0, "repeats": False, "concurrency": 100}, program, in_memory=True)
