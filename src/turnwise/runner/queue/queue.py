"""One session's messages in this process."""

import asyncio

from turnwise.facts.errors import SessionBusy
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import SessionStore
from turnwise.runner.message.driver import Driver
from turnwise.runner.message.invocation import MessageRun
from turnwise.runner.queue.followers import Followers


class SessionQueue:
    """Who waits, who is answered, and the task that works them off.

    door: keeps arrivals in order while one of them is being accepted. users: how many arrivals hold on to the lane.
    waiting: jobs whose messages are in the inbox, by the message's id. looks_elsewhere: nothing runs here, another process
    holds it. closing: what others left is not taken up any more.
    """

    def __init__(self, key: SessionKey, *, closing: bool) -> None:
        self.key = key
        self.arrival_lock = asyncio.Lock()
        self.arrivals = 0
        self.waiting: dict[str, MessageRun] = {}
        self.current: MessageRun | None = None
        self.task: asyncio.Task[None] | None = None
        self.waits_elsewhere = False
        self.closing = closing

    @property
    def is_busy(self) -> bool:
        """Whether a task works here."""
        return self.task is not None

    @property
    def is_unused(self) -> bool:
        return self.arrivals == 0 and self.task is None


class InboxQueue:
    """Puts messages in line, and takes those out that leave, or that another process has taken."""

    def __init__(self, driver: Driver, store: SessionStore, followers: Followers) -> None:
        self._driver, self._store, self._followers = driver, store, followers

    async def accept(self, queue: SessionQueue, run: MessageRun) -> None:
        """Stores the message in the inbox, with its job in line; or follows it, if it was begun before. QueueFull."""
        # Before it is stored, so that nothing is kept of what the guardrails take out.
        await self._driver.prepare(run)
        limit = run.config.limits.queue
        receipt = await self._store.inbox.accept(run.key, run.stored_message, create=run.config.create_session, limit=limit)
        run.accept()
        if receipt.state == "queued":
            self.put(queue, run)
        else:
            self._followers.follow(run, receipt)

    def put(self, queue: SessionQueue, run: MessageRun) -> None:
        """Puts a job in line whose message is in the inbox."""
        run.queued = True
        run.accept()
        current = queue.current
        if current is not None and current is not run and current.message.id == run.message.id:
            # The same message, sent again while it is tried: one answer, and both handles read it.
            run.invocation = current.invocation
            return
        known = queue.waiting.setdefault(run.message.id, run)
        run.invocation = known.invocation
        known.invocation.set_queued(lambda: self._leave(queue, known))
        if known.invocation.is_cancelled:
            self._leave(queue, known)

    async def send_on(self, queue: SessionQueue) -> None:
        """Lets the jobs whose messages another process took follow it."""
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

    async def follow_or_put(self, queue: SessionQueue, run: MessageRun) -> None:
        """Follows the message when it was begun or refused elsewhere, else waits with it."""
        receipt = await self._store.inbox.receipt(run.key, run.message.id)
        if receipt is None:
            # It was never stored: the session was too much in motion.
            run.fail(SessionBusy.answering(run.key.id))
        elif receipt.state == "queued":
            self.put(queue, run)
        else:
            run.accept()
            self._followers.follow(run, receipt)

    def _leave(self, queue: SessionQueue, run: MessageRun) -> None:
        """A queued message that is cancelled leaves the line at once, and the inbox."""
        if queue.waiting.pop(run.message.id, None) is not None:
            self._followers.withdraw(run)
