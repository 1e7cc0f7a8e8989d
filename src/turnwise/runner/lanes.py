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
    """The sessions that are busy in this process. `config` is for messages that others left in an inbox."""

    def __init__(self, driver: Driver, store: SessionStore, config: RunConfig) -> None:
        self._driver, self._store, self._config = driver, store, config
        self._lanes: dict[SessionKey, Lane] = {}
        self._followers: set[asyncio.Task[None]] = set()
        self._leavers: set[asyncio.Task[None]] = set()

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
                    # Not torn by a caller who gives up: a message that is stored is also in line.
                    await asyncio.shield(asyncio.create_task(self._queue(lane, job)))
                await job.accepted()
        finally:
            lane.users -= 1
            self._forget(job.key, lane)

    async def idle(self, key: SessionKey | None = None) -> None:
        """Returns when nothing runs, or nothing in that session."""
        while tasks := [lane.task for k, lane in self._lanes.items() if lane.task and key in (None, k)] + [*self._leavers]:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Waits for what runs here; who follows an answer given elsewhere is told to ask again."""
        await self.idle()
        for task in (followers := [*self._followers]):
            task.cancel()
        await asyncio.gather(*followers, return_exceptions=True)

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
        # Also when it never came to run: nobody waits for a feed that nobody fills.
        task.add_done_callback(lambda _: job.invocation.feed.close(_closed()))

    async def _follow(self, job: Job, receipt: Receipt) -> None:
        try:
            await follow(self._store, job, receipt)
        except TurnwiseError as problem:
            job.invocation.feed.close(problem)

    def _make_way(self, lane: Lane, job: Job) -> None:
        if job.config.when_busy == "reject":
            raise _busy(job)
        if job.config.when_busy == "interrupt" and lane.current is not None:
            lane.current.invocation.interrupt()

    async def _queue(self, lane: Lane, job: Job) -> None:
        limit = job.config.limits.queue
        # Before it is stored, so that nothing is kept of a message that the guardrails block.
        await self._driver.prepare(job)
        await self._store.inbox.accept(job.key, job.kept, create=job.config.create_session, limit=limit)
        job.queued = True
        job.accept()
        if lane.current is None:
            self._start(lane, job)
        else:
            lane.waiting.append(job)
            job.invocation.waits_in_line(lambda: self._leave(lane, job))

    def _leave(self, lane: Lane, job: Job) -> None:
        """A queued message that is cancelled leaves the line at once, and the inbox."""
        if job in lane.waiting:
            lane.waiting.remove(job)
            task = asyncio.create_task(self._withdraw(job))
            self._leavers.add(task)
            task.add_done_callback(self._leavers.discard)

    async def _withdraw(self, job: Job) -> None:
        try:
            await self._withdrawn(job)
        except TurnwiseError as problem:
            job.fail(problem)

    def _start(self, lane: Lane, job: Job) -> None:
        lane.current = job
        lane.task = asyncio.create_task(self._work(lane, job))

    async def _work(self, lane: Lane, job: Job) -> None:
        try:
            while True:
                await self._serve(lane, job)
                if not lane.waiting:
                    break
                job = lane.current = lane.waiting.popleft()
        finally:
            while lane.waiting:
                lane.waiting.popleft().fail(SessionBusy("The runner stopped; the message waits in the inbox."))
            lane.current = lane.task = None
            self._forget(job.key, lane)

    async def _serve(self, lane: Lane, job: Job) -> None:
        """Answers the job. Its problem goes to its caller and takes it out of the inbox; those behind it are not touched."""
        try:
            await self._until_answered(lane, job)
        except Exception as problem:
            if not isinstance(problem, TurnwiseError):
                log.exception("The runner failed on message %s of session %s.", job.message.id, job.key.id)
            job.fail(problem)
            await self._refuse(job, problem)
        except BaseException as stopped:
            job.fail(stopped)
            raise

    async def _until_answered(self, lane: Lane, job: Job) -> None:
        """Serves what is older in the inbox, then the job; or follows it when another process took it."""
        while not await self._withdrawn(job) and not await self._attempt(job):
            receipt = await self._store.inbox.receipt(job.key, job.message.id)
            if receipt is not None and receipt.state != "queued":
                job.accept()
                await follow(self._store, job, receipt)
                return
            if receipt is not None:
                job.queued = True
                job.accept()
            await self._wait_in_line(lane, job)

    async def _attempt(self, job: Job) -> bool:
        """Whether the job could be served now: nobody else has the session, and nothing older waits."""
        try:
            await self._driver.serve(job)
        except (SessionBusy, StaleWriter):
            return False
        return True

    async def _wait_in_line(self, lane: Lane, job: Job) -> None:
        session = await self._store.open(job.key)
        if session is not None and session.held:
            if job.config.when_busy == "reject":
                raise _busy(job)
            await asyncio.sleep(POLL_SECONDS)
            return
        oldest = await self._store.inbox.queued(job.key)
        if oldest is not None and oldest.id != job.message.id:
            older = Job(job.key, oldest, self._config)
            older.queued = True
            lane.current = older
            lane.waiting.appendleft(job)
            job.invocation.waits_in_line(lambda: self._leave(lane, job))
            await self._serve_older(older)
            lane.current = job
            if job in lane.waiting:
                lane.waiting.remove(job)

    async def _serve_older(self, older: Job) -> None:
        """Serves a message that somebody left in the inbox; its problem is on record there."""
        try:
            await self._attempt(older)
        except Exception as problem:
            log.warning("Message %s of session %s was refused: %s", older.message.id, older.key.id, problem)
            await self._refuse(older, problem)

    async def _withdrawn(self, job: Job) -> bool:
        """Whether the job was cancelled while it was queued; then it leaves the inbox."""
        if not job.invocation.is_cancelled or job.invocation.feed.is_closed:
            return job.invocation.feed.is_closed
        if job.queued:
            await self._store.inbox.refuse(job.key, job.message.id, "cancelled")
        job.accept()
        job.invocation.feed.close()
        return True

    async def _refuse(self, job: Job, problem: Exception) -> None:
        """Takes a queued message that cannot be run out of the inbox."""
        if not job.queued:
            return
        code = problem.code if isinstance(problem, TurnwiseError) else type(problem).__name__
        try:
            await self._store.inbox.refuse(job.key, job.message.id, code)
        except TurnwiseError:
            # The store is the problem: the message stays in the inbox, for whoever comes when it is back.
            return

    def _forget(self, key: SessionKey, lane: Lane) -> None:
        if lane.users == 0 and lane.current is None and self._lanes.get(key) is lane:
            del self._lanes[key]


def _closed() -> SessionBusy:
    return SessionBusy("The runner was closed while another process answers.", fix="Ask again by the message's id.")


def _busy(job: Job) -> SessionBusy:
    return SessionBusy(f"Session {job.key.id!r} is answering another message.", fix="Try again, or queue the message.")
