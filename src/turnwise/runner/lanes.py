"""One message at a time per session, in the order of acceptance; sessions side by side (behaviour A32)."""

import asyncio
import enum
import logging

from turnwise.facts.errors import SessionBusy, StaleWriter, StoreError, TurnwiseError
from turnwise.facts.limits import RunConfig
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.stores import SessionStore
from turnwise.runner.driver import Driver
from turnwise.runner.followers import Followers
from turnwise.runner.gate import Gate
from turnwise.runner.job import Job
from turnwise.runner.lane import Lane
from turnwise.runner.planning import Unfinished
from turnwise.runner.recovering import Leftover, Recovering
from turnwise.runner.recovery import orphan_of
from turnwise.runner.stops import Stops

HEAD_START_SECONDS = 0.05
"""How long others leave a free session to who gave it up: that process works its inbox off."""
SUSPECT_ATTEMPT = 3
"""From this attempt on, invocations run one at a time: one of them may be what kills processes."""

log = logging.getLogger("turnwise.runner")


class Next(enum.Enum):
    """What a lane does next."""

    AGAIN = enum.auto()
    WAIT = enum.auto()
    REST = enum.auto()


class Lanes:
    """The sessions that are busy in this process. `config` is for messages that came without one of their own."""

    def __init__(
        self, driver: Driver, recovering: Recovering, store: SessionStore, config: RunConfig, *, concurrency: int
    ) -> None:
        self._driver, self._recovering, self._store, self._config = driver, recovering, store, config
        self._gate = Gate(concurrency)
        self._suspects = Gate(1)
        self._lanes: dict[SessionKey, Lane] = {}
        self._closing = False
        self._stops = Stops(store, driver.lease.holder, self.running)
        self.followers = Followers(store, self)

    async def submit(self, job: Job) -> None:
        """Returns when the message is accepted: it is being answered, or waits in the inbox.

        SessionBusy (policy `reject`), QueueFull, and whatever makes a message impossible to accept.
        """
        # Not torn by a caller who gives up: a message that is stored is also in line.
        entering = asyncio.create_task(self._enter(job))
        entering.add_done_callback(_retrieve)
        await asyncio.shield(entering)

    async def _enter(self, job: Job) -> None:
        lane = self._lane(job.key)
        lane.users += 1
        try:
            if job.config.when_busy == "reject" and await self._is_busy(lane):
                raise _busy(job)
            answered = lane.current
            async with lane.door:
                if not lane.is_busy and (self._gate.is_open or job.config.when_busy == "reject"):
                    self._start(lane, job)
                else:
                    await self._queue(lane, job)
                await job.accepted()
            if job.config.when_busy == "interrupt" and job.queued:
                await self._interrupt(lane, answered, job)
        finally:
            lane.users -= 1
            self._forget(lane)

    def join(self, job: Job) -> None:
        """Lets the job's handle wait for a message that is in the inbox already."""
        lane = self._lane(job.key)
        self._put_in_line(lane, job)
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
        mine = None if lane is not None and lane.is_busy else self._driver.lease.holder
        return orphan_of(session, mine) is not None

    def running(self) -> list[Job]:
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
            if lane.looks_elsewhere and lane.task:
                lane.task.cancel()
        while tasks := [lane.task for lane in self._lanes.values() if lane.task]:
            await asyncio.wait(tasks)
        await self.followers.close()
        self._closing = False

    async def _is_busy(self, lane: Lane) -> bool:
        """Whether a message of the session is being answered; elsewhere is looked only if this one could not begin now."""
        if lane.is_busy or lane.door.locked():
            return True
        session = None if self._gate.is_open else await self._store.open(lane.key)
        return session is not None and session.held

    async def _interrupt(self, lane: Lane, answered: Job | None, by: Job) -> None:
        """Stops what was being answered when the interrupting message came, here or elsewhere, if it still is."""
        if answered is not None and answered.invocation.id is not None:
            if lane.current is answered:
                answered.invocation.interrupt()
            return
        session = await self._store.open(lane.key)
        receipt = await self._store.inbox.receipt(lane.key, by.message.id)
        if session is None or receipt is None or receipt.state != "queued":
            return
        for invocation_id, open_ in session.head.invocations.items():
            if open_.state == "running":
                await self._store.leases.stop(lane.key, invocation_id)

    async def _queue(self, lane: Lane, job: Job) -> None:
        # Before it is stored, so that nothing is kept of a message that the guardrails block.
        await self._driver.prepare(job)
        receipt = await self._store.inbox.accept(
            job.key, job.kept, create=job.config.create_session, limit=job.config.limits.queue
        )
        job.accept()
        if receipt.state != "queued":
            self.followers.follow(job, receipt)
            return
        self._put_in_line(lane, job)
        if not lane.is_busy:
            self._start(lane)

    def _put_in_line(self, lane: Lane, job: Job) -> None:
        job.queued = True
        job.accept()
        known = lane.waiting.setdefault(job.message.id, job)
        # The same message, sent twice at once: one answer, and both handles read it.
        job.invocation = known.invocation
        known.invocation.waits_in_line(lambda: self._leave(lane, known))
        if known.invocation.is_cancelled:
            self._leave(lane, known)

    def _leave(self, lane: Lane, job: Job) -> None:
        """A queued message that is cancelled leaves the line at once, and the inbox."""
        if lane.waiting.pop(job.message.id, None) is not None:
            self.followers.withdraw(job)

    def _start(self, lane: Lane, first: Job | None = None, *, recover: bool = False) -> "asyncio.Task[None]":
        # Entered at once if there is room, so that nobody else takes the place before the task comes to run.
        inside = self._gate.try_enter()
        lane.task = asyncio.create_task(self._work(lane, first, inside=inside, recover=recover))
        return lane.task

    async def _work(self, lane: Lane, first: Job | None, *, inside: bool, recover: bool) -> None:
        """Works the session off: the message at hand, then what is in the inbox, as long as no other process does."""
        try:
            doing = Next.AGAIN
            while (doing is not Next.REST and not self._closing) or lane.waiting or first:
                if doing is Next.WAIT and not await self._wait(lane):
                    return
                if not inside:
                    await self._gate.enter()
                try:
                    doing = await self._serve(lane, first) if first else await self._advance(lane, recover=recover)
                finally:
                    self._gate.leave()
                    first, inside, recover, lane.current = None, False, False, None
        except Exception as problem:
            if not isinstance(problem, TurnwiseError):
                log.exception("The runner failed in session %s.", lane.key.id)
            # What is in the inbox stays there, for whoever comes when the store is back.
            self._tell(lane, first, problem)
        except asyncio.CancelledError:
            self._tell(lane, first, _closed())
            raise
        finally:
            lane.task = None
            self._forget(lane)

    async def _advance(self, lane: Lane, *, recover: bool) -> Next:
        """Answers the oldest message of the inbox."""
        oldest = await self._store.inbox.queued(lane.key)
        if oldest is not None:
            job = lane.waiting.pop(oldest.id, None) or Job(lane.key, oldest, oldest.config or self._config)
            job.queued = True
            return await self._serve(lane, job)
        if recover:
            if await self._recover(lane):
                return Next.AGAIN
            await self._recovering.give_up(lane.key)
        await self._send_on(lane)
        return Next.REST

    async def _serve(self, lane: Lane, job: Job) -> Next:
        """Answers the job, or finds out who does. Raises what the store raises; the job's readers know it then."""
        lane.current = job
        self._stops.listen()
        try:
            return await self._answer(lane, job)
        except StoreError as problem:
            # It may pass: the message is not refused for it.
            job.fail(problem)
            raise
        except Exception as problem:
            if not isinstance(problem, TurnwiseError):
                log.exception("The runner failed on message %s of session %s.", job.message.id, job.key.id)
            job.fail(problem)
            await self._refuse(job, problem)
            return Next.AGAIN
        except BaseException as stopped:
            job.fail(stopped)
            raise

    async def _answer(self, lane: Lane, job: Job) -> Next:
        try:
            session = await self._driver.serve(job)
        except Unfinished:
            return await self._after_another(lane, job)
        except SessionBusy as busy:
            if job.config.when_busy == "reject" and not job.queued:
                job.fail(busy)
                return Next.WAIT
            return await self._known_or_again(lane, job)
        except StaleWriter:
            return await self._known_or_again(lane, job)
        if session is not None:
            return Next.AGAIN if session.queued else Next.REST
        # It was lost to another process.
        assert job.invocation.id is not None
        self.followers.follow_invocation(job, job.invocation.id)
        return Next.WAIT

    async def _after_another(self, lane: Lane, job: Job) -> Next:
        """An older message is to be recovered first."""
        if not job.queued and job.config.when_busy == "reject":
            job.fail(_busy(job))
        else:
            await self._keep(lane, job)
        lane.current = None
        await self._recover(lane)
        return Next.AGAIN

    async def _keep(self, lane: Lane, job: Job) -> None:
        """Puts the message in the inbox, unless it is there, and the job in line."""
        if job.queued:
            lane.waiting = {job.message.id: job, **lane.waiting}
            return
        try:
            await self._queue(lane, job)
        except TurnwiseError as problem:
            job.fail(problem)

    async def _known_or_again(self, lane: Lane, job: Job) -> Next:
        """Follows the message when it was started elsewhere, else waits with it."""
        receipt = await self._store.inbox.receipt(job.key, job.message.id)
        if receipt is not None and receipt.state != "queued":
            job.accept()
            self.followers.follow(job, receipt)
        elif receipt is not None:
            lane.waiting = {job.message.id: job, **lane.waiting}
            self._put_in_line(lane, job)
        else:
            # It was never stored: the session was too much in motion.
            job.fail(_busy(job))
        return Next.WAIT

    async def _recover(self, lane: Lane) -> bool:
        """Runs again what a dead process left; False when there is nothing."""
        left = await self._recovering.leftover(lane.key)
        if left is None:
            return False
        if left.attempt < SUSPECT_ATTEMPT:
            await self._resume(lane, left)
            return True
        if not self._suspects.try_enter():
            # Others are answered meanwhile.
            self._gate.leave()
            try:
                await self._suspects.enter()
            finally:
                await self._gate.enter()
        try:
            await self._resume(lane, left)
        finally:
            self._suspects.leave()
        return True

    async def _resume(self, lane: Lane, left: Leftover) -> None:
        lane.current = left.job
        self._stops.listen()
        try:
            resumed = await self._recovering.resume(left)
        except (SessionBusy, StaleWriter):
            resumed = None
        except BaseException as problem:
            left.job.fail(problem)
            raise
        finally:
            lane.current = None
        if resumed is None:
            # Somebody else was faster, or took it away.
            self.followers.follow_invocation(left.job, left.orphan.invocation_id)

    async def _wait(self, lane: Lane) -> bool:
        """Returns when the session is free: True; or when nobody here waits for it any more, for its holder works it off."""
        pause, free, revision = HEAD_START_SECONDS, False, -1
        lane.looks_elsewhere = True
        try:
            with self._store.signals.watch(lane.key) as watch:
                while not self._closing:
                    session = await self._store.open(lane.key)
                    held = session is not None and session.holder not in (None, self._driver.lease.holder)
                    if free and not held:
                        return True
                    if session is None or session.revision != revision:
                        await self._send_on(lane)
                        revision = session.revision if session else -1
                    if held and not lane.waiting:
                        return False
                    pause = HEAD_START_SECONDS if not held else min(2 * pause, self._store.signals.poll_seconds)
                    free = not held
                    while await watch.next(pause) is not None:
                        continue
        finally:
            lane.looks_elsewhere = False
        self._tell(lane, None, _closed())
        return False

    async def _send_on(self, lane: Lane) -> None:
        """Lets the jobs whose messages another process took follow it."""
        for job in list(lane.waiting.values()):
            receipt = await self._store.inbox.receipt(job.key, job.message.id)
            if receipt is not None and receipt.state == "queued":
                continue
            if lane.waiting.pop(job.message.id, None) is None:
                continue
            if receipt is None:
                job.fail(SessionBusy("The session was deleted while the message waited.", fix="Send it again."))
            else:
                self.followers.follow(job, receipt)

    async def _refuse(self, job: Job, problem: Exception) -> None:
        """Takes a queued message that cannot be run out of the inbox."""
        if job.queued:
            code = problem.code if isinstance(problem, TurnwiseError) else type(problem).__name__
            await self._store.inbox.refuse(job.key, job.message.id, code)

    @staticmethod
    def _tell(lane: Lane, first: Job | None, problem: Exception) -> None:
        """Tells everybody who waits in the lane why it is not worked off."""
        for job in (*lane.waiting.values(), *([first] if first else [])):
            job.fail(problem)
        lane.waiting.clear()

    def _lane(self, key: SessionKey) -> Lane:
        return self._lanes.setdefault(key, Lane(key))

    def _forget(self, lane: Lane) -> None:
        if lane.is_unused and self._lanes.get(lane.key) is lane:
            del self._lanes[lane.key]


def _retrieve(task: "asyncio.Task[None]") -> None:
    # Whoever asked may be gone; the message is on its way all the same.
    if not task.cancelled():
        task.exception()


def _closed() -> SessionBusy:
    return SessionBusy("The runner was closed while another process answers.", fix="Ask again by the message's id.")


def _busy(job: Job) -> SessionBusy:
    return SessionBusy(f"Session {job.key.id!r} is answering another message.", fix="Try again, or queue the message.")
