"""One message at a time per session, in the order of acceptance; sessions side by side (behaviour A32)."""

import asyncio
import logging
from collections import deque

from turnwise.facts.errors import SessionBusy, StaleWriter, TurnwiseError
from turnwise.facts.limits import RunConfig
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import Receipt, SessionStore
from turnwise.runner.driver import Driver
from turnwise.runner.elsewhere import follow
from turnwise.runner.job import Job

POLL_SECONDS = 0.05

log = logging.getLogger("turnwise.runner")


class Lane:
    """A session's messages in this process. `door` keeps arrivals in order while one of them is being accepted."""

    def __init__(self) -> None:
        self.door = asyncio.Lock()
        self.users = 0
        self.waiting: deque[Job] = deque()
        self.current: Job | None = None
        self.task: asyncio.Task[None] | None = None


class Lanes:
    """The sessions that are busy in this process."""

    def __init__(self, driver: Driver, store: SessionStore) -> None:
        self._driver, self._store = driver, store
        self._lanes: dict[SessionKey, Lane] = {}
        self._followers: set[asyncio.Task[None]] = set()

    async def submit(self, job: Job) -> None:
        """Returns when the message is accepted: it is being answered, or waits in the inbox.

        SessionBusy (policy `reject`), QueueFull, and whatever makes a message impossible to accept.
        """
        lane = self._lanes.setdefault(job.key, Lane())
        lane.users += 1
        try:
            if lane.current is not None or lane.door.locked():
                self._make_way(lane, job)
            async with lane.door:
                if lane.current is None:
                    self._start(lane, job)
                else:
                    await self._queue(lane, job)
                await job.accepted()
        finally:
            lane.users -= 1
            self._forget(job.key, lane)

    async def idle(self) -> None:
        """Returns when nothing runs."""
        while tasks := [lane.task for lane in self._lanes.values() if lane.task]:
            await asyncio.wait(tasks)

    def running(self) -> list[Job]:
        """The jobs that are being answered now."""
        return [lane.current for lane in self._lanes.values() if lane.current]

    def follow(self, job: Job, receipt: Receipt) -> None:
        """Lets the job's handle follow a message that was started before, here or elsewhere."""
        for running in self.running():
            if running.key == job.key and running.message.id == job.message.id:
                job.invocation = running.invocation
                return
        task = asyncio.create_task(self._follow(job, receipt))
        self._followers.add(task)
        task.add_done_callback(self._followers.discard)

    async def _follow(self, job: Job, receipt: Receipt) -> None:
        try:
            await follow(self._store, job, receipt)
        except TurnwiseError as problem:
            job.invocation.feed.close(problem)

    def _make_way(self, lane: Lane, job: Job) -> None:
        if job.config.when_busy == "reject":
            raise SessionBusy(f"Session {job.key.id!r} is answering another message.", fix="Try again, or queue the message.")
        if job.config.when_busy == "interrupt" and lane.current is not None:
            lane.current.invocation.interrupt()

    async def _queue(self, lane: Lane, job: Job) -> None:
        limit = job.config.limits.queue
        await self._store.inbox.accept(job.key, job.message, create=job.config.create_session, limit=limit)
        job.queued = True
        job.accept()
        if lane.current is None:
            self._start(lane, job)
        else:
            lane.waiting.append(job)

    def _start(self, lane: Lane, job: Job) -> None:
        lane.current = job
        lane.task = asyncio.create_task(self._work(lane, job))

    async def _work(self, lane: Lane, job: Job) -> None:
        try:
            while True:
                await self._serve(job)
                if not lane.waiting:
                    break
                job = lane.current = lane.waiting.popleft()
        finally:
            lane.current = lane.task = None
            self._forget(job.key, lane)

    async def _serve(self, job: Job) -> None:
        """Answers the job; its problem goes to its caller, never to the messages behind it."""
        try:
            await self._answer(job)
        except TurnwiseError as problem:
            job.fail(problem)
            await self._refuse(job, problem)
        except Exception as error:
            log.exception("The runner failed on message %s of session %s.", job.message.id, job.key.id)
            job.fail(error)
        except BaseException as stopped:
            job.fail(stopped)
            raise

    async def _answer(self, job: Job) -> None:
        if await self._withdrawn(job):
            return
        try:
            await self._driver.serve(job)
        except SessionBusy:
            if job.config.when_busy == "reject":
                raise
            job.queued = True
            job.accept()
            await self._take_turns(job)
        except StaleWriter:
            receipt = await self._store.inbox.receipt(job.key, job.message.id)
            if receipt is None or receipt.state == "queued":
                raise
            job.accept()
            await follow(self._store, job, receipt)

    async def _take_turns(self, job: Job) -> None:
        """The session is held elsewhere, or older messages wait: serves the inbox in order until this one is answered."""
        while True:
            oldest = await self._store.inbox.queued(job.key)
            receipt = await self._store.inbox.receipt(job.key, job.message.id)
            if receipt is not None and receipt.state != "queued":
                await follow(self._store, job, receipt)
                return
            turn = job
            if oldest is not None and oldest.id != job.message.id:
                turn = Job(job.key, oldest, RunConfig())
                turn.queued = True
            try:
                await self._driver.serve(turn)
            except (SessionBusy, StaleWriter):
                # Somebody else has the session, or took this very message: look again.
                await asyncio.sleep(POLL_SECONDS)
            except TurnwiseError as problem:
                if turn is job:
                    raise
                await self._refuse(turn, problem)
            if turn is job and job.invocation.feed.is_closed:
                return

    async def _withdrawn(self, job: Job) -> bool:
        """Whether the job was cancelled while it was queued; then it leaves the inbox."""
        if not job.invocation.is_cancelled:
            return False
        await self._store.inbox.refuse(job.key, job.message.id, "cancelled")
        job.accept()
        job.invocation.feed.close()
        return True

    async def _refuse(self, job: Job, problem: TurnwiseError) -> None:
        """Takes a queued message that cannot be run out of the inbox."""
        if not job.queued:
            return
        try:
            await self._store.inbox.refuse(job.key, job.message.id, problem.code)
        except TurnwiseError:
            # The store is the problem: the message stays in the inbox, for whoever comes when it is back.
            return

    def _forget(self, key: SessionKey, lane: Lane) -> None:
        if lane.users == 0 and lane.current is None and self._lanes.get(key) is lane:
            del self._lanes[key]
