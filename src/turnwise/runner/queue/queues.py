"""Session queues: one message at a time per session, in order of acceptance; sessions run in parallel (behaviour A32)."""

import asyncio
from collections.abc import Callable
from datetime import datetime

from turnwise.facts.errors import QueueFull, SessionBusy
from turnwise.facts.limits import ProcessConfig, RunConfig
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.dispatcher import MakesDispatcher
from turnwise.ports.stores import SessionStore
from turnwise.runner.message.driver import Driver
from turnwise.runner.message.invocation import MessageRun
from turnwise.runner.message.open_invocations import orphan_of
from turnwise.runner.message.recovery import Recovery
from turnwise.runner.queue.expiries import Expiries
from turnwise.runner.queue.followers import Followers
from turnwise.runner.queue.queue import ConcurrencyLimit, InboxQueue, RemoteWaiter, SessionQueue
from turnwise.runner.queue.session_worker import CancelListener, SessionWorker, WorkerContext

FAIR_SHARE_FROM = 100
"""A user with fewer waiting messages is only refused when the process is full."""


class SessionQueues:
    """The queues of all busy sessions in one event loop.

    Args:
        make_dispatcher: Makes the dispatcher that schedules the work on sessions.
        now: The clock of waits.
    """

    def __init__(
        self,
        driver: Driver,
        recovery: Recovery,
        store: SessionStore,
        config: RunConfig,
        *,
        app: str,
        now: Callable[[], datetime],
        process: ProcessConfig,
        make_dispatcher: MakesDispatcher,
    ) -> None:
        self._store, self._holder = store, driver.lease.holder
        self.dispatcher = make_dispatcher(self._work_off)
        self.expiries = Expiries(store, self.dispatcher, self.take_up, app, now)
        self._limit, self._backlog = ConcurrencyLimit(process.concurrency), process.backlog
        self._queues: dict[SessionKey, SessionQueue] = {}
        self._accepting: dict[asyncio.Task[None], str] = {}
        """The user of each message that is being stored."""
        self._closing = False
        self.followers = Followers(store, self)
        self._inbox_queue = InboxQueue(driver, store, self.followers, config)
        cancel_listener = CancelListener(store, self._holder, self.running)
        self._worker_context = WorkerContext(
            driver,
            recovery,
            store,
            config,
            self._limit,
            ConcurrencyLimit(1),
            self.followers,
            self._inbox_queue,
            cancel_listener,
            self.dispatcher,
            self.expiries,
        )

    async def submit(self, run: MessageRun) -> None:
        """Returns when the message is accepted: it is being answered, or stored in the inbox.

        Raises:
            SessionBusy: The session is busy and the policy is `reject`.
            QueueFull: The inbox is full, or too many messages wait in this process.
            MessageBlocked: A guardrail blocked the message; the refusal is recorded, or will be in the message's
                turn.
            TurnwiseError: Any other reason why the message cannot be accepted.
        """
        queue = self._queue_of(run.key)
        queue.arrivals += 1
        try:
            if run.config.when_busy == "reject" and await self._is_busy(queue):
                raise SessionBusy.answering(run.key.id)
            answered = queue.current
            await self._admit(queue, run)
            if run.blocked:
                raise run.blocked
            if run.config.when_busy == "interrupt" and run.queued:
                await self._interrupt(queue, answered, run)
        finally:
            self._release_arrival(queue)

    def join(self, run: MessageRun) -> None:
        """Queues the run of a message that is already in the inbox."""
        queue = self._queue_of(run.key)
        self._inbox_queue.put(queue, run)
        if not queue.is_busy:
            self._announce(queue, 0)

    def announce(self, key: SessionKey) -> None:
        """Has abandoned work of that session worked off, here or elsewhere."""
        self.dispatcher.announce(key, 0)

    def take_up(self, key: SessionKey, number: int = 0) -> "asyncio.Task[None]":
        """Returns the task that works the session off here; starts one if there is none. `number` is as for `WorkOff`."""
        queue = self._queue_of(key)
        return queue.task or self._start(queue, recover=True, is_due=number == 0)

    def _work_off(self, key: SessionKey, number: int) -> "asyncio.Task[None]":
        if number == 0:
            self.expiries.called()
        return self.take_up(key, number)

    @property
    def has_room(self) -> bool:
        """True if another message could be answered here at once."""
        return self._limit.has_room

    def is_abandoned(self, session: Session) -> bool:
        """Returns whether an invocation of that session must be recovered: no process answers it, including this one."""
        queue = self._queues.get(session.key)
        mine = None if queue is not None and queue.is_busy else self._holder
        return orphan_of(session, mine) is not None

    def running(self) -> list[MessageRun]:
        """Returns the runs that are being answered now."""
        return [queue.current for queue in self._queues.values() if queue.current]

    async def idle(self, key: SessionKey | None = None) -> None:
        """Waits until no message is being answered, or none in that session."""
        while tasks := [task for k, queue in self._queues.items() if key in (None, k) for task in queue.tasks]:
            await asyncio.wait(tasks)
        await self.followers.wait_withdrawn()

    async def close(self) -> None:
        """Waits for accepted messages. Readers that wait for another process get an error; queued messages stay in the
        inbox.
        """
        self._closing = True
        await self.expiries.close()
        for queue in self._queues.values():
            queue.closing = True
            if queue.waits_elsewhere and queue.task:
                queue.task.cancel()
            if queue.waiter:
                queue.waiter.cancel()
        while tasks := [*self._accepting, *(task for queue in self._queues.values() for task in queue.tasks)]:
            await asyncio.wait(tasks)
        await self.followers.close()
        await self.dispatcher.close()

    async def _is_busy(self, queue: SessionQueue) -> bool:
        """Returns whether the session is answering a message. Asks the store only if the message could not begin now."""
        if queue.is_busy or queue.arrival_lock.locked():
            return True
        begins_here = self.dispatcher.is_local and self._limit.has_room
        session = None if begins_here else await self._store.open(queue.key)
        return session is not None and (session.held or (session.queued > 0 and not self.dispatcher.is_local))

    async def _interrupt(self, queue: SessionQueue, answered: MessageRun | None, by: MessageRun) -> None:
        """Stops the run that was being answered when the interrupting message came, here or in another process."""
        here = answered if answered is not None and answered.invocation.id is not None else None
        if here is not None and queue.current is not here:
            return
        try:
            # Also for local runs: if this process dies before the end is stored, recovery must know of the stop.
            await self._request_stop(queue.key, by)
        finally:
            if here is not None and queue.current is here:
                here.invocation.interrupt()

    async def _request_stop(self, key: SessionKey, by: MessageRun) -> None:
        """Requests the stop of the session's running invocations, unless the interrupting message has itself begun."""
        session = await self._store.open(key)
        receipt = await self._store.inbox.receipt(key, by.message.id)
        if session is None or receipt is None or receipt.state != "queued":
            return
        for invocation_id, open_ in session.head.invocations.items():
            if open_.state == "running":
                await self._store.leases.stop(key, invocation_id)

    async def _admit(self, queue: SessionQueue, run: MessageRun) -> None:
        """Starts the message at once, or stores it. The next arrival waits until then."""
        await queue.arrival_lock.acquire()
        begins_here = self.dispatcher.is_local and not queue.is_busy
        if not (begins_here and (self._limit.has_room or run.config.when_busy == "reject")):
            try:
                self._check_backlog(queue.key.user)
            except QueueFull:
                queue.arrival_lock.release()
                raise
            queue.arrivals += 1
            accepting = asyncio.create_task(self._enqueue(queue, run))
            self._accepting[accepting] = queue.key.user
            accepting.add_done_callback(self._accepting.pop)
            accepting.add_done_callback(_consume_exception)
            await asyncio.shield(accepting)
            return
        self._start(queue, run)
        try:
            await run.accepted()
        finally:
            queue.arrival_lock.release()

    def _check_backlog(self, user: str) -> None:
        """Raises QueueFull if the process has no room for another waiting message.

        A user with at least `FAIR_SHARE_FROM` waiting messages may have at most as many as there is room left. So one user
        fills at most half of the backlog.
        """
        waiting = len(self._accepting) + sum(len(queue.waiting) for queue in self._queues.values())
        if waiting >= self._backlog:
            raise QueueFull(
                f"{waiting:,} messages wait in this process already; the limit is {self._backlog:,}. This one is refused.",
                fix="Send it again later, start more processes, or raise process.backlog.",
            )
        if waiting < FAIR_SHARE_FROM:
            return
        accepting = sum(each == user for each in self._accepting.values())
        own = accepting + sum(len(queue.waiting) for key, queue in self._queues.items() if key.user == user)
        if own >= max(FAIR_SHARE_FROM, self._backlog - waiting):
            raise QueueFull(
                f"{own:,} messages of this user wait in this process already, and there is room for {self._backlog - waiting:,}"
                " more of all users. This one is refused.",
                fix="Send it again later, start more processes, or raise process.backlog.",
            )

    async def _enqueue(self, queue: SessionQueue, run: MessageRun) -> None:
        """Stores and queues the message, even if its caller was cancelled: a stored message is answered."""
        try:
            receipt = await self._inbox_queue.accept(queue, run)
            if queue.waiting and not (queue.is_busy and self.dispatcher.is_local):
                self._announce(queue, receipt.number, is_known=receipt.after_others)
        finally:
            queue.arrival_lock.release()
            self._release_arrival(queue)

    def _announce(self, queue: SessionQueue, number: int, *, is_known: bool = False) -> None:
        """Has the queue worked off. If others may do it, waits for them on behalf of this process's readers.

        Args:
            queue: The queue.
            number: As for `Dispatcher.announce`.
            is_known: Whether an earlier message waits. It was announced, and one call of an engine works off both.
        """
        if self.dispatcher.is_local or not is_known:
            self.dispatcher.announce(queue.key, number)
        if not self.dispatcher.is_local and queue.waiter is None:
            queue.waiter = asyncio.create_task(self._wait_for_others(queue))

    async def _wait_for_others(self, queue: SessionQueue) -> None:
        try:
            await RemoteWaiter(self._store, queue, self._inbox_queue).wait()
        finally:
            queue.waiter = None
            self._discard_if_unused(queue)

    def _start(
        self, queue: SessionQueue, first: MessageRun | None = None, *, recover: bool = False, is_due: bool = False
    ) -> "asyncio.Task[None]":
        """Starts a worker for the queue in a task, with a concurrency slot if one is free, and returns the task."""
        # Takes a free slot now, before another task can take it.
        inside = self._limit.try_enter()
        worker = SessionWorker(self._worker_context, queue, first, recover=recover, is_due=is_due, inside=inside)
        queue.task = asyncio.create_task(self._work(queue, worker))
        return queue.task

    async def _work(self, queue: SessionQueue, worker: SessionWorker) -> None:
        try:
            await worker.work()
        finally:
            queue.task = None
            self._discard_if_unused(queue)

    def _queue_of(self, key: SessionKey) -> SessionQueue:
        return self._queues.setdefault(key, SessionQueue(key, closing=self._closing))

    def _release_arrival(self, queue: SessionQueue) -> None:
        queue.arrivals -= 1
        self._discard_if_unused(queue)

    def _discard_if_unused(self, queue: SessionQueue) -> None:
        if queue.is_unused and self._queues.get(queue.key) is queue:
            del self._queues[queue.key]


def _consume_exception(task: "asyncio.Task[None]") -> None:
    # The caller may have been cancelled; the message is processed anyway.
    if not task.cancelled():
        task.exception()
