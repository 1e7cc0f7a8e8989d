"""Between a process and its store: who dies, stands still, or hears nothing; and what the store took, in order."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from survival_model.clock import VirtualLoop
from turnwise import Event
from turnwise.facts.errors import QueueFull, SessionBusy, StoreUnavailable, TurnwiseError
from turnwise.facts.events import USER
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.signals import Signals
from turnwise.ports.stores import SessionStore

Method = Callable[..., Coroutine[Any, Any, Any]]

WRITES = frozenset({"begin", "take", "append", "accept", "refuse", "stop", "release"})
PAUSES = (0.0, 0.0, 0.001, 0.01, 0.04)
"""How long a call may take on its way there, and on its way back, in seconds of the loop's time."""


@dataclass
class Fault:
    """What happens at a process's write, after `writes` others: `crash`, `freeze` or `outage`, once it is stored or before."""

    kind: str
    writes: int
    after: bool


@dataclass
class Running:
    """What a session's holder answers."""

    message: str
    invocation: str
    process: str


@dataclass
class History:
    """What the store took, in the order in which it took it."""

    writes: int = 0
    accepted: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    running: dict[str, Running] = field(default_factory=dict)
    """By session, since its claim and until its release."""
    began: list[Running] = field(default_factory=list)
    """Every claim of an invocation, in order."""
    invocations: dict[str, str] = field(default_factory=dict)
    """By message."""
    holders: dict[str, str] = field(default_factory=dict)
    """The names of processes, by how they call themselves in leases."""
    lost: set[tuple[str, str]] = field(default_factory=set)
    """Processes that lost a session to another while they answered."""
    recorded: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    """By session, the invocations and places of steps, unless a user may have taken them back."""
    problems: list[str] = field(default_factory=list)
    _stored: set[tuple[str, str]] = field(default_factory=set)

    def note(self, process: str, name: str, given: tuple[Any, ...], options: dict[str, Any], outcome: object) -> None:
        self.writes += 1
        if name == "accept" and not isinstance(outcome, Exception):
            self._accept(given[0], given[1].id)
        elif name == "begin":
            self._begin(process, given[0], given[2].id, given[3], outcome, queued=options["queue_limit"] is not None)
        elif name == "take" and isinstance(outcome, Session):
            self._take(process, given[0], given[2], released=options.get("release", False))
        elif name == "append" and isinstance(outcome, Session):
            self._append(process, given[0], given[1], released=options.get("release", False))

    def answering(self, invocation: str | None) -> str:
        """The message that is answered in that invocation: the last that came to it."""
        return [running.message for running in self.began if running.invocation == invocation][-1]

    def _accept(self, key: SessionKey, message: str) -> None:
        if message not in self.accepted[key.id]:
            self.accepted[key.id].append(message)

    def _begin(
        self, process: str, session: Session, message: str, events: Sequence[Event], outcome: object, *, queued: bool
    ) -> None:
        if isinstance(outcome, Session):
            self._accept(session.key, message)
            self.invocations[message] = events[-1].invocation_id
            self._run(session, Running(message, events[-1].invocation_id, process))
            self._keep(session, events)
        elif isinstance(outcome, SessionBusy) and not isinstance(outcome, QueueFull) and queued:
            self._accept(session.key, message)

    def _take(self, process: str, session: Session, events: Sequence[Event], *, released: bool) -> None:
        self._keep(session, events)
        if released:
            self._lose(session, process)
            self._end(session, events)
        elif events:
            invocation = events[-1].invocation_id
            self._run(session, Running(self.answering(invocation), invocation, process))

    def _append(self, process: str, session: Session, events: Sequence[Event], *, released: bool) -> None:
        new = self._keep(session, events)
        owner = self.running.get(session.id)
        rewinds = all(event.author == USER and event.actions.rewind for event in events)
        if new and rewinds:
            self._lose(session, process)
            self._end(session, events)
        elif new and (owner is None or owner.process != process):
            self.problems.append(f"{process} wrote {new} although {owner} has the session")
        if released and new:
            self.running.pop(session.id, None)

    def _run(self, session: Session, running: Running) -> None:
        self._lose(session, running.process)
        self.running[session.id] = running
        self.began.append(running)

    def _end(self, session: Session, events: Sequence[Event]) -> None:
        running = self.running.get(session.id)
        # Nothing runs any more of what a user takes back.
        over = any(e.actions.rewind or (e.actions.end and running and e.invocation_id == running.invocation) for e in events)
        if over:
            self.running.pop(session.id, None)

    def _lose(self, session: Session, to: str) -> None:
        before = self.running.get(session.id)
        if before is not None and before.process != to:
            self.lost.add((before.process, session.id))

    def _keep(self, session: Session, events: Sequence[Event]) -> list[str]:
        new = [event.id for event in events if (session.id, event.id) not in self._stored]
        self._stored.update((session.id, id_) for id_ in new)
        if any(event.author == USER and event.actions.rewind for event in events):
            self.recorded[session.id].clear()
        self.recorded[session.id].update((e.invocation_id, step.key) for e in events for step in e.actions.steps)
        return new


class Line:
    """A process's way to its store."""

    def __init__(
        self, process: str, store: SessionStore, signals: Signals, history: History, *, pace: int = 0, repeats: bool = False
    ) -> None:
        self.process, self.store, self.signals, self.history = process, store, signals, history
        self.repeats = repeats
        self.dead = self.closed = False
        self.fault: Fault | None = None
        self.cut_off = False
        """Whether it was told once that the store is away: its callers may have been, too."""
        self._random = random.Random(pace) if pace else None
        self._thawed = asyncio.Event()
        self._thawed.set()

    @property
    def frozen(self) -> bool:
        return not self._thawed.is_set()

    def die(self) -> None:
        self.dead = True

    def freeze(self) -> None:
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    def calm(self) -> None:
        """From now on nothing goes wrong."""
        self.fault, self._random = None, None
        self.thaw()

    async def stand(self) -> None:
        """Returns while the process lives; when it stands still, afterwards; when it is dead, never."""
        while self.dead or self.frozen:
            if self.closed:
                raise StoreUnavailable("The example is over.")
            await (asyncio.Event().wait() if self.dead else self._thawed.wait())

    async def call(self, name: str, method: Method, given: tuple[Any, ...], options: Any) -> Any:
        await self._travel()
        fault = self._due(name)
        if fault is not None and not fault.after:
            await self._strike(fault)
        outcome = self._do(name, method, given, options)
        if fault is not None and fault.after:
            await self._strike(fault)
        await self._travel()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _travel(self) -> None:
        await self.stand()
        if self._random is not None:
            await asyncio.sleep(self._random.choice(PAUSES))
            await self.stand()

    def _due(self, name: str) -> Fault | None:
        if self.fault is None or name not in WRITES:
            return None
        self.fault.writes -= 1
        if self.fault.writes >= 0:
            return None
        due, self.fault = self.fault, None
        return due

    async def _strike(self, fault: Fault) -> None:
        if fault.kind == "outage":
            self.cut_off = True
            raise StoreUnavailable("The store is away; nobody knows whether it was stored.")
        if fault.kind == "crash":
            self.die()
        else:
            self.freeze()
        await self.stand()

    def _do(self, name: str, method: Method, given: tuple[Any, ...], options: Any) -> Any:
        """Does the call; a write again, if answers get lost on this line: then the second answer counts."""
        outcome = self._once(name, method, given, options)
        if self.repeats and name in WRITES and not isinstance(outcome, Exception) and _is_found_again(name, given):
            again = self._once(name, method, given, options)
            if _token(again) != _token(outcome):
                self.history.problems.append(f"{name} of {self.process} made again gave {again!r} instead of {outcome!r}")
            return again
        return outcome

    def _once(self, name: str, method: Method, given: tuple[Any, ...], options: Any) -> Any:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        if name in ("begin", "take"):
            self.history.holders[given[1].holder] = self.process
        outcome: Any
        try:
            outcome = loop.finish(method(*given, **options))
        except TurnwiseError as problem:
            outcome = problem
        if name in WRITES:
            self.history.note(self.process, name, given, options, outcome)
        return outcome


def _is_found_again(name: str, given: tuple[Any, ...]) -> bool:
    """A claim without events leaves nothing by which it could be known again."""
    return name != "take" or bool(given[2])


def _token(outcome: Any) -> Any:
    if not isinstance(outcome, Session):
        return None if not isinstance(outcome, Exception) else repr(outcome)
    return outcome.epoch, outcome.revision, outcome.last_sequence, outcome.state, outcome.head


class Wire:
    """The store, or a part of it, as a process has it at the end of its line (a `SessionStore`)."""

    def __init__(self, line: Line, end: Any) -> None:
        self._line, self._end = line, end

    @property
    def signals(self) -> Signals:
        return self._line.signals

    @property
    def inbox(self) -> "Wire":
        return Wire(self._line, self._end.inbox)

    @property
    def decisions(self) -> "Wire":
        return Wire(self._line, self._end.decisions)

    @property
    def leases(self) -> "Wire":
        return Wire(self._line, self._end.leases)

    @property
    def jobs(self) -> "Wire":
        return Wire(self._line, self._end.jobs)

    @property
    def maintenance(self) -> "Wire":
        return Wire(self._line, self._end.maintenance)

    async def close(self) -> None:
        """The store is others' as well."""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._end, name)

        async def call(*given: Any, **options: Any) -> Any:
            return await self._line.call(name, method, given, options)

        return call
