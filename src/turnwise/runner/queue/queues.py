"""One message at a time per session, in the order of acceptance; sessions side by side (behaviour A32)."""

import asyncio
import logging
import random

from turnwise.facts.errors import SessionBusy, TurnwiseError
from turnwise.facts.limits import RunConfig
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.stores import SessionStore
from turnwise.runner.message.driver import Driver
from turnwise.runner.message.invocation import MessageRun
from turnwise.runner.message.recovery import Recovery
from turnwise.runner.message.recovery_rules import orphan_of
from turnwise.runner.queue.followers import Followers
from turnwise.runner.queue.job_worker import JobWorker
from turnwise.runner.queue.limit import ConcurrencyLimit
from turnwise.runner.queue.queue import InboxQueue, SessionQueue
from turnwise.runner.queue.worker import CancelListener, SessionWorker, WorkerContext


class SessionQueues:
    """The sessions that are busy at one desk, and who comes to them."""

    def __init__(
        self, driver: Driver, recovering: Recovery, store: SessionStore, config: RunConfig, *, concurrency: int
    ) -> None:
        self._store, self._holder = store, driver.lease.holder
        self._gate = ConcurrencyLimit(concurrency)
        self._lanes: dict[SessionKey, SessionQueue] = {}
        self._accepting: set[asyncio.Task[None]] = set()
        self._closing = False
        self.followers = Followers(store, self)
        self._line = InboxQueue(driver, store, self.followers)
        stops = CancelListener(store, self._holder, self.running)
        self._tools = WorkerContext(
            driver, recovering, store, config, self._gate, ConcurrencyLimit(1), self.followers, self._line, stops
        )

    async def submit(self, job: MessageRun) -> None:
        """Returns when the message is accepted: it is being answered, or waits in the inbox.

        SessionBusy (policy `reject`), QueueFull, MessageBlocked when that is on record or will be in its turn, and whatever
        makes a message impossible to accept.
        """
        lane = self._lane(job.key)
        lane.users += 1
        try:
            if job.config.when_busy == "reject" and await self._is_busy(lane):
                raise SessionBusy.answering(job.key.id)
            answered = lane.current
            await self._pass_door(lane, job)
            if job.blocked:
                raise job.blocked
            if job.config.when_busy == "interrupt" and job.queued:
                await self._interrupt(lane, answered, job)
        finally:
            self._let_go(lane)

    def join(self, job: MessageRun) -> None:
        """Lets the job's handle wait for a message that is in the inbox already."""
        lane = self._lane(job.key)
        self._line.put(lane, job)
        if not lane.is_busy:
            self._start(lane)

    def take_up(self, key: SessionKey) -> "asyncio.Task[None]":
        """Works off what others left in that session, unless somebody does already; the task that does."""
        lane = self._lane(key)
        return lane.task or self._start(lane, recover=True)

    @property
    def has_room(self) -> bool:
        """Whether another message could be answered here at once."""
        return self._gate.is_open

    def is_abandoned(self, session: Session) -> bool:
        """Whether an answer of that session is to be recovered: nobody gives it, not even this process."""
        lane = self._lanes.get(session.key)
        mine = None if lane is not None and lane.is_busy else self._holder
        return orphan_of(session, mine) is not None

    def running(self) -> list[MessageRun]:
        """The jobs that are being answered now."""
        return [lane.current for lane in self._lanes.values() if lane.current]

    async def idle(self, key: SessionKey | None = None) -> None:
        """Returns when nothing runs, or nothing in that session."""
        while tasks := [lane.task for k, lane in self._lanes.items() if lane.task and key in (None, k)]:
            await asyncio.wait(tasks)
        await self.followers.withdrawn()

    async def close(self) -> None:
        """Waits for what was accepted here; who waits for another process is told to ask again, the inbox keeps the rest."""
        self._closing = True
        for lane in self._lanes.values():
            lane.closing = True
            if lane.looks_elsewhere and lane.task:
                lane.task.cancel()
        while tasks := [*self._accepting, *(lane.task for lane in self._lanes.values() if lane.task)]:
            await asyncio.wait(tasks)
        await self.followers.close()

    async def _is_busy(self, lane: SessionQueue) -> bool:
        """Whether a message of the session is being answered; elsewhere is looked only if this one could not begin now."""
        if lane.is_busy or lane.door.locked():
            return True
        session = None if self._gate.is_open else await self._store.open(lane.key)
        return session is not None and session.held

    async def _interrupt(self, lane: SessionQueue, answered: MessageRun | None, by: MessageRun) -> None:
        """Stops what was being answered when the interrupting message came, here or elsewhere, if it still is."""
        here = answered if answered is not None and answered.invocation.id is not None else None
        if here is not None and lane.current is not here:
            return
        try:
            # Also of what runs here: should this process die before the end is stored, whoever recovers it is to know.
            await self._leave_word(lane.key, by)
        finally:
            if here is not None and lane.current is here:
                here.invocation.interrupt()

    async def _leave_word(self, key: SessionKey, by: MessageRun) -> None:
        """Leaves word that what runs in the session is to be stopped, unless the interrupting message was begun itself."""
        session = await self._store.open(key)
        receipt = await self._store.inbox.receipt(key, by.message.id)
        if session is None or receipt is None or receipt.state != "queued":
            return
        for invocation_id, open_ in session.head.invocations.items():
            if open_.state == "running":
                await self._store.leases.stop(key, invocation_id)

    async def _pass_door(self, lane: SessionQueue, job: MessageRun) -> None:
        """Has the message answered at once, or stored; the next to arrive comes after that."""
        await lane.door.acquire()
        if lane.is_busy or not (self._gate.is_open or job.config.when_busy == "reject"):
            lane.users += 1
            accepting = asyncio.create_task(self._queue(lane, job))
            self._accepting.add(accepting)
            accepting.add_done_callback(self._accepting.discard)
            accepting.add_done_callback(_retrieve)
            await asyncio.shield(accepting)
            return
        self._start(lane, job)
        try:
            await job.accepted()
        finally:
            lane.door.release()

    async def _queue(self, lane: SessionQueue, job: MessageRun) -> None:
        """Puts the message in the inbox and in line, also if its caller has given up: what is stored is answered here."""
        try:
            await self._line.accept(lane, job)
            if lane.waiting and not lane.is_busy:
                self._start(lane)
        finally:
            lane.door.release()
            self._let_go(lane)

    def _start(self, lane: SessionQueue, first: MessageRun | None = None, *, recover: bool = False) -> "asyncio.Task[None]":
        # Entered at once if there is room, so that nobody else takes the place before the task comes to run.
        shift = SessionWorker(self._tools, lane, first, recover=recover, inside=self._gate.try_enter())
        lane.task = asyncio.create_task(self._work(lane, shift))
        return lane.task

    async def _work(self, lane: SessionQueue, shift: SessionWorker) -> None:
        try:
            await shift.work()
        finally:
            lane.task = None
            self._forget(lane)

    def _lane(self, key: SessionKey) -> SessionQueue:
        return self._lanes.setdefault(key, SessionQueue(key, closing=self._closing))

    def _let_go(self, lane: SessionQueue) -> None:
        lane.users -= 1
        self._forget(lane)

    def _forget(self, lane: SessionQueue) -> None:
        if lane.is_unused and self._lanes.get(lane.key) is lane:
            del self._lanes[lane.key]


def _retrieve(task: "asyncio.Task[None]") -> None:
    # Whoever asked may be gone; the message is on its way all the same.
    if not task.cancelled():
        task.exception()


AT_MOST = 100
"""How many sessions are taken up in one round."""

log = logging.getLogger("turnwise.runner")


class RecoveryLoop:
    """Takes up sessions that nobody holds although something is to be done there, and background jobs."""

    def __init__(self, store: SessionStore, lanes: SessionQueues, jobs: JobWorker, app: str, seconds: float) -> None:
        self._store, self._lanes, self._jobs, self._app, self._seconds = store, lanes, jobs, app, seconds

    async def once(self) -> int:
        """Takes up all that are due, then the jobs; returns in how many sessions, when they are worked off.

        Raises what the store raises.
        """
        taken: set[SessionKey] = set()
        while new := set(await self._store.leases.due(self._app, limit=AT_MOST)) - taken:
            await asyncio.wait([self._lanes.take_up(key) for key in new])
            taken |= new
        return len(taken | await self._jobs.work_off())

    async def forever(self) -> None:
        """Takes up due sessions again and again while this process has room for them, until it is cancelled.

        No error of the store ends it: a refused login, a read-only server or a lost connection may pass. The first error of
        a series is logged, and so is its end.
        """
        failing: str | None = None
        while True:
            try:
                await self._round()
                if failing is not None:
                    log.info("The store can be read again; recovery goes on.")
                failing = None
            except TurnwiseError as problem:
                if failing != problem.code:
                    log.warning("What is left to do cannot be read: %s", problem)
                failing = problem.code
            except Exception as problem:
                if failing != type(problem).__name__:
                    log.exception("What is left to do cannot be read.")
                failing = type(problem).__name__
            # Not all processes at the same moment.
            await asyncio.sleep(self._seconds * random.uniform(0.8, 1.2))

    async def _round(self) -> None:
        await self._jobs.claim()
        if not self._lanes.has_room:
            return
        keys = list(await self._store.leases.due(self._app, limit=AT_MOST))
        random.shuffle(keys)
        for key in keys:
            if self._lanes.has_room:
                self._lanes.take_up(key)
                # Lets it enter before the next is looked at.
                await asyncio.sleep(0)
