"""The queue of one session's messages in this process, and the operations that move messages in and out of it, to other
processes too.
"""

import asyncio
from collections import deque

from turnwise.facts.errors import SessionBusy, TurnwiseError
from turnwise.facts.limits import RunConfig
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import Receipt, SessionStore
from turnwise.runner.message.driver import Driver
from turnwise.runner.message.invocation import MessageRun
from turnwise.runner.queue.followers import Followers, first_pause, runner_closed

FIRST_LOOK_SECONDS = 0.05
"""The shortest first pause between two reads of the store. Signals end it early."""


class SessionQueue:
    """The messages of one session in this process, and the task that answers them."""

    def __init__(self, key: SessionKey, *, closing: bool) -> None:
        self.key = key
        self.arrival_lock = asyncio.Lock()
        """Keeps arriving messages in order while one of them is being accepted."""
        self.arrivals = 0
        """The number of arriving messages that still use this queue."""
        self.waiting: dict[str, MessageRun] = {}
        """Runs of the messages in the inbox, by message id."""
        self.current: MessageRun | None = None
        """The run that is being answered."""
        self.task: asyncio.Task[None] | None = None
        """The task that works the queue off here."""
        self.waiter: asyncio.Task[None] | None = None
        """The task that waits until other processes have taken the waiting messages."""
        self.waits_elsewhere = False
        """True if the task only waits for another process, which holds the session."""
        self.closing = closing
        """True to leave abandoned work to other processes."""

    @property
    def is_busy(self) -> bool:
        """True if a task works on this queue."""
        return self.task is not None

    @property
    def is_unused(self) -> bool:
        """True if the queue can be discarded."""
        return self.arrivals == 0 and not self.tasks

    @property
    def tasks(self) -> "list[asyncio.Task[None]]":
        """The running tasks of this queue."""
        return [task for task in (self.task, self.waiter) if task is not None]


class InboxQueue:
    """Adds messages to session queues, and removes those that were cancelled or taken by another process."""

    def __init__(self, driver: Driver, store: SessionStore, followers: Followers, config: RunConfig) -> None:
        self._driver, self._store, self._followers, self._config = driver, store, followers, config

    async def accept(self, queue: SessionQueue, run: MessageRun) -> Receipt:
        """Stores the message in the inbox and queues its run; follows it if it was begun before.

        Raises QueueFull, SessionFull, StateFull, StaleWriter, UserLimitReached.
        """
        await self._driver.check_room(run)
        # Guardrails run first, so that nothing they remove is stored.
        await self._driver.prepare(run)
        # A message that is not to wait may only be the next one.
        limit = 1 if run.config.when_busy == "reject" else run.config.limits.queue
        receipt = await self._store.inbox.accept(
            run.key, run.stored_message, create=run.config.create_session, limit=limit, revision=run.revision
        )
        self._put_or_follow(queue, run, receipt)
        return receipt

    def put(self, queue: SessionQueue, run: MessageRun) -> None:
        """Queues the run of a message in the inbox."""
        run.queued = True
        run.accept()
        current = queue.current
        if current is not None and current is not run and current.message.id == run.message.id:
            # The same message was sent again while it is being answered: both handles share one answer.
            run.invocation = current.invocation
            return
        known = queue.waiting.setdefault(run.message.id, run)
        run.invocation = known.invocation
        known.invocation.set_queued(lambda: self._leave(queue, known))
        if known.invocation.is_cancelled:
            self._leave(queue, known)

    async def send_on(self, queue: SessionQueue) -> None:
        """Removes the runs of messages that another process has taken, and follows those messages."""
        for run in list(queue.waiting.values()):
            receipt = await self._store.inbox.receipt(run.key, run.message.id)
            if receipt is not None and receipt.state == "queued":
                continue
            if queue.waiting.pop(run.message.id, None) is None:
                continue
            if receipt is None:
                run.fail(SessionBusy("The session was deleted while the message waited.", fix="Send it again."))
            else:
                self._followers.follow(run, receipt)

    async def follow_or_put(self, queue: SessionQueue, run: MessageRun, problem: TurnwiseError) -> None:
        """Follows the message if another process began or refused it; queues it if it is in the inbox.

        Args:
            problem: The error of a message that was not accepted at all.
        """
        receipt = await self._store.inbox.receipt(run.key, run.message.id)
        if receipt is None:
            run.fail(problem)
        else:
            self._put_or_follow(queue, run, receipt)

    def _put_or_follow(self, queue: SessionQueue, run: MessageRun, receipt: Receipt) -> None:
        """Queues the run if its message waits in the inbox; follows the answer if the message was started or refused."""
        run.accept()
        if receipt.state != "queued":
            self._followers.follow(run, receipt)
            return
        if receipt.repeated:
            run.adopt(receipt.message, self._config)
        self.put(queue, run)

    def _leave(self, queue: SessionQueue, run: MessageRun) -> None:
        """Removes a cancelled message from the queue and the inbox."""
        if queue.waiting.pop(run.message.id, None) is not None:
            # Somebody may attach to the message before the inbox says that it is cancelled.
            self._followers.withdraw(run, then=lambda: self.send_on(queue))


class ConcurrencyLimit:
    """A FIFO semaphore with `limit` slots that any event loop may use."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def has_room(self) -> bool:
        """True if a slot is free and no one waits for it."""
        return self._free > 0 and not self._waiters

    def try_enter(self) -> bool:
        """Takes a slot if one is free. Returns whether it did."""
        if self.has_room:
            self._free -= 1
            return True
        return False

    @property
    def waiting(self) -> int:
        """The number of waiters."""
        return len(self._waiters)

    def reserve(self) -> "asyncio.Future[None]":
        """Returns a future that is done when the caller has a slot. A caller that no longer wants it must `cancel` it."""
        slot = asyncio.get_running_loop().create_future()
        if self.try_enter():
            slot.set_result(None)
        else:
            self._waiters.append(slot)
        return slot

    def cancel(self, slot: "asyncio.Future[None]") -> None:
        """Cancels a reservation, and releases the slot if it was already granted."""
        if slot in self._waiters:
            self._waiters.remove(slot)
        elif slot.done() and not slot.cancelled():
            self.release()
        # A grant may be in transit; `_grant` then passes the slot on.
        slot.cancel()

    def release(self) -> None:
        """Passes the slot to the longest waiter, or frees it."""
        if self._waiters:
            slot = self._waiters.popleft()
            slot.get_loop().call_soon_threadsafe(self._grant, slot)
        else:
            self._free += 1

    def _grant(self, slot: asyncio.Future[None]) -> None:
        # A cancelled waiter passes the slot on.
        if slot.done():
            self.release()
        else:
            slot.set_result(None)


class RemoteWaiter:
    """Waits while messages of the queue are in the inbox. An engine decides which process takes them, perhaps this one."""

    def __init__(self, store: SessionStore, queue: SessionQueue, inbox_queue: InboxQueue) -> None:
        self._store, self._queue, self._inbox_queue = store, queue, inbox_queue

    async def wait(self) -> None:
        """Returns when no message of the queue waits any more. Store errors fail the waiting runs; their messages stay."""
        try:
            await self._wait()
        except TurnwiseError as problem:
            self._fail(problem)
        except BaseException:
            self._fail(runner_closed())
            raise

    async def _wait(self) -> None:
        """Looks at the queue's messages at signals and at growing intervals, until other processes have taken all of them."""
        signals, seen = self._store.signals, (-1, -1)
        first = pause = first_pause(signals, FIRST_LOOK_SECONDS)
        with signals.watch(self._queue.key) as watch:
            while self._queue.waiting:
                # The messages were just accepted, so there is no news yet.
                while await watch.next(pause) is not None:
                    continue
                pause = signals.poll_seconds
                if len(self._queue.waiting) > 1:
                    # One read of the session tells whether it is worth to look at each message.
                    session = await self._store.open(self._queue.key)
                    now = (session.revision, session.queued) if session else (-1, 0)
                    if session is not None and now == seen:
                        continue
                    seen, pause = now, first
                await self._inbox_queue.send_on(self._queue)

    def _fail(self, problem: Exception) -> None:
        for run in self._queue.waiting.values():
            run.fail(problem)
        self._queue.waiting.clear()
