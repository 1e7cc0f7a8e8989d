"""The worker of one session queue: answers the first message, then the inbox, until another process takes over."""

import asyncio
import enum
import logging
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from turnwise.facts.errors import SessionBusy, StaleWriter, StoreError, TurnwiseError
from turnwise.facts.limits import RunConfig
from turnwise.facts.sessions import Session
from turnwise.ports.dispatcher import Dispatcher
from turnwise.ports.stores import SessionStore
from turnwise.runner.message.driver import Driver
from turnwise.runner.message.invocation import MessageRun
from turnwise.runner.message.open_invocations import LeftToOtherProcesses, orphan_of
from turnwise.runner.message.planning import UnfinishedMessage
from turnwise.runner.message.recovery import Recovery, UnfinishedWork
from turnwise.runner.queue.expiries import Expiries
from turnwise.runner.queue.followers import Followers, first_pause, runner_closed
from turnwise.runner.queue.queue import ConcurrencyLimit, InboxQueue, SessionQueue

FIRST_LOOK_SECONDS = 0.05
"""The shortest delay before the first read of the store. Most slots come sooner, so nothing is read for them."""
LOOKS_PER_SECOND = 100
"""The rate at which all waiters of one limit together read the store, in addition to signals."""
SELDOM_PER_SECOND = 4
"""The rate of those for whose sessions nobody waits in this process."""
LOOK_SECONDS = 0.25
"""The interval between two checks for stop requests."""
HEAD_START_SECONDS = 0.05
"""The time for which other processes leave a released session to its last holder, which works off its inbox."""
LEFT_SECONDS = 0.5
"""The interval at which to check whether another process has taken the work that was left to it."""
NOTICED_SECONDS = 2.0
"""How long after its lease's time a holder may be found dead: two heartbeats, which come each second or more often."""
SUSPECT_ATTEMPT = 3
"""From this attempt on, invocations run one at a time: one of them may crash its process."""

log = logging.getLogger("turnwise.runner")


class SlotWaiter:
    """Waits for a slot of a ConcurrencyLimit on behalf of one queue. Meanwhile, lets messages taken by other processes
    leave.

    Args:
        holder: The name of this process on leases.
    """

    def __init__(self, store: SessionStore, queue: SessionQueue, inbox_queue: InboxQueue, holder: str) -> None:
        self._store, self._queue, self._inbox_queue, self._holder = store, queue, inbox_queue, holder

    async def enter(self, limit: ConcurrencyLimit, *, first: bool = False, recovers: bool = False) -> bool:
        """Waits for a slot. Returns True with the slot, or False without one as soon as there is nothing to do here.

        Args:
            limit: The limit to enter.
            first: True if a caller waits with a message that is not stored yet.
            recovers: True if the session is also checked for work of a dead process.
        """
        if limit.try_enter():
            return True
        slot, keeps_slot = limit.reserve(), False
        try:
            while not slot.done():
                await self._wait_for_news(limit, slot, first=first, recovers=recovers)
                if not slot.done() and not (first or self._queue.waiting):
                    return False
            # A closing process takes up no abandoned work.
            keeps_slot = first or bool(self._queue.waiting) or not self._queue.closing
            return keeps_slot
        finally:
            if not keeps_slot:
                limit.cancel(slot)

    async def _wait_for_news(
        self, limit: ConcurrencyLimit, slot: "asyncio.Future[None]", *, first: bool, recovers: bool
    ) -> None:
        """Returns when the slot is granted, or when there was nothing to do at the last check."""
        here = first or bool(self._queue.waiting)
        look = self._poll_store(limit, first=first, recovers=recovers) if here else self._poll_seldom(limit, recovers)
        poll = asyncio.create_task(look)
        try:
            await asyncio.wait({slot, poll}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            poll.cancel()
        if not slot.done():
            poll.result()

    async def _poll_store(self, limit: ConcurrencyLimit, *, first: bool, recovers: bool) -> None:
        """Waits until another process has taken all work of this queue, while no concurrency slot is free."""
        signals, seen = self._store.signals, (-1, 0)
        pause = first_pause(signals, FIRST_LOOK_SECONDS)
        with signals.watch(self._queue.key) as watch:
            while True:
                while await watch.next(max(pause, limit.waiting / LOOKS_PER_SECOND)) is not None:
                    continue
                pause = signals.poll_seconds
                try:
                    session = await self._store.open(self._queue.key)
                    now = (session.revision, session.queued) if session else (-1, 0)
                    if now[0] != seen[0] or now[1] < seen[1] or session is None:
                        await self._inbox_queue.send_on(self._queue)
                except StoreError:
                    # If the error persists, the worker raises it after it enters.
                    continue
                seen = now
                if not (first or self._queue.waiting or self._has_work(session, recovers=recovers)):
                    return

    async def _poll_seldom(self, limit: ConcurrencyLimit, recovers: bool) -> None:
        """Returns when the session has no work for this process, or somebody here waits for it.

        Until then nobody here would use a signal: what another process did shows when the slot is granted.
        """
        clock = asyncio.get_running_loop().time
        looked = clock()
        while not (self._queue.waiting or self._queue.closing):
            await asyncio.sleep(LOOK_SECONDS)
            if clock() - looked < max(self._store.signals.poll_seconds, limit.waiting / SELDOM_PER_SECOND):
                continue
            looked = clock()
            with suppress(StoreError):
                if not self._has_work(await self._store.open(self._queue.key), recovers=recovers):
                    return

    def _has_work(self, session: Session | None, *, recovers: bool) -> bool:
        """Returns whether the session has abandoned work that this process may do: another holder would do it itself."""
        if session is None or self._queue.closing or session.holder not in (None, self._holder):
            return False
        return session.queued > 0 or (recovers and orphan_of(session, self._holder) is not None)


class CancelListener:
    """Checks for stop requests while messages run in this process, and for sessions that other processes took.

    Args:
        running: Returns the runs of this process.
    """

    def __init__(self, store: SessionStore, holder: str, running: Callable[[], Sequence[MessageRun]]) -> None:
        self._store, self._holder, self._running = store, holder, running
        self._deaths = 0
        self._timers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None] | None]
        self._timers = weakref.WeakKeyDictionary()

    def listen(self) -> None:
        """Starts checking in this event loop, if it is not already."""
        loop = asyncio.get_running_loop()
        if loop not in self._timers:
            # A timer is cheaper than a task: most answers end before it fires.
            self._timers[loop] = None
            loop.call_later(LOOK_SECONDS, self._wake, loop)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._running():
            self._timers[loop] = loop.create_task(self._check_requests(loop))
        else:
            del self._timers[loop]

    async def _check_requests(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stops the runs that other processes asked to stop, and checks the leases. Then schedules the next look."""
        try:
            for key, invocation_id in await self._store.leases.stops(self._holder):
                for run in self._running():
                    if run.key == key and run.invocation.id == invocation_id:
                        run.invocation.interrupt()
            await self._check_leases()
        except TurnwiseError as problem:
            log.debug("The stop requests could not be read: %s", problem.code)
        loop.call_later(LOOK_SECONDS, self._wake, loop)

    async def _check_leases(self) -> None:
        """After other processes found this one dead, stops the runs in the sessions that they took."""
        deaths = await self._store.leases.deaths(self._holder)
        if deaths != self._deaths:
            for run in self._running():
                await run.invocation.check_lease()
        self._deaths = deaths


class NextWork(enum.Enum):
    """The worker's next action."""

    CONTINUE = enum.auto()
    """Answer the next message."""
    WAIT = enum.auto()
    """Wait: another process holds the session."""
    LEAVE_TO_OTHERS = enum.auto()
    """Wait longer: another process should take the session."""
    OUTWAIT = enum.auto()
    """Wait until the holder is known to be dead, or has shown that it lives."""
    DONE = enum.auto()
    """Nothing is left to do."""


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The services that all workers of one event loop share."""

    driver: Driver
    recovery: Recovery
    store: SessionStore
    config: RunConfig
    """The configuration of messages that came without one."""
    limit: ConcurrencyLimit
    suspect_limit: ConcurrencyLimit
    """The limit for invocations that may crash their process."""
    followers: Followers
    inbox_queue: InboxQueue
    cancel_listener: CancelListener
    dispatcher: Dispatcher
    expiries: Expiries


class SessionWorker:
    """Works off one session queue, within the concurrency limit.

    Args:
        first: A message that is not stored yet.
        recover: True to look for work of a dead process, too.
        is_due: True if a dead process may have left its lease on the session, or a wait may have expired.
        inside: True if the caller has already taken a slot.
    """

    def __init__(
        self,
        context: WorkerContext,
        queue: SessionQueue,
        first: MessageRun | None,
        *,
        recover: bool,
        is_due: bool,
        inside: bool,
    ) -> None:
        self._context, self._queue = context, queue
        self._store, self._limit, self._inbox_queue = context.store, context.limit, context.inbox_queue
        self._first, self._recovers, self._is_due, self._inside = first, recover, is_due, inside
        self._slot_waiter = SlotWaiter(context.store, queue, context.inbox_queue, context.driver.lease.holder)

    async def work(self) -> None:
        """Returns when nothing is left to do here. On an error, fails all waiting runs with it."""
        try:
            await self._work()
        except Exception as problem:
            if not isinstance(problem, TurnwiseError):
                log.exception("The runner failed in session %s.", self._queue.key.id)
            # Messages in the inbox stay there until the store is back.
            self._fail_waiting(problem)
        except asyncio.CancelledError:
            self._fail_waiting(runner_closed())
            raise

    async def _work(self) -> None:
        """Serves the queue until nothing is left: waits for a free session or slot, and answers or recovers one message at a
        time.
        """
        queue, next_work = self._queue, NextWork.CONTINUE
        while (next_work is not NextWork.DONE and not queue.closing) or queue.waiting or self._first:
            if next_work is NextWork.WAIT and not await self._wait_until_free():
                return
            if next_work is NextWork.LEAVE_TO_OTHERS and not (queue.waiting and await self._wait_until_free(LEFT_SECONDS)):
                return
            if next_work is NextWork.OUTWAIT and not await self._outwait_holder():
                return
            if not self._inside:
                self._inside = await self._slot_waiter.enter(self._limit, first=bool(self._first), recovers=self._recovers)
            if not self._inside:
                return
            try:
                next_work = await self._serve(self._first) if self._first else await self._advance()
            finally:
                if self._inside:
                    self._limit.release()
                self._first, self._inside, queue.current = None, False, None

    async def _advance(self) -> NextWork:
        """Answers the oldest message of the inbox, or recovers abandoned work."""
        recover, self._recovers = self._recovers, False
        oldest = await self._store.inbox.queued(self._queue.key)
        if oldest is not None:
            run = self._queue.waiting.pop(oldest.id, None)
            run = run or MessageRun(self._queue.key, oldest, oldest.config or self._context.config)
            run.queued = True
            return await self._serve(run)
        if recover:
            try:
                if await self._recover():
                    return NextWork.CONTINUE
            except LeftToOtherProcesses:
                return NextWork.LEAVE_TO_OTHERS
            session = await self._context.recovery.settle(self._queue.key, is_due=self._is_due)
            if session is not None and self._is_elsewhere(session) and not self._context.dispatcher.is_local:
                return NextWork.OUTWAIT
        await self._inbox_queue.send_on(self._queue)
        return NextWork.DONE

    async def _serve(self, run: MessageRun) -> NextWork:
        """Answers the run, or follows it if another process does. Raises the store's errors after failing the run with them."""
        self._queue.current = run
        self._context.cancel_listener.listen()
        try:
            return await self._answer(run)
        except StoreError as problem:
            # The error may pass, so the message is not refused.
            run.fail(problem)
            raise
        except Exception as problem:
            if not isinstance(problem, TurnwiseError):
                log.exception("The runner failed on message %s of session %s.", run.message.id, run.key.id)
            run.fail(problem)
            await self._refuse(run, problem)
            return NextWork.CONTINUE
        except BaseException as stopped:
            run.fail(stopped)
            raise

    async def _answer(self, run: MessageRun) -> NextWork:
        """Answers one message and returns what the worker does next. Errors become a place in the inbox or a follower."""
        try:
            session = await self._serve_in_context(run)
        except UnfinishedMessage as older:
            return await self._wait_for_older(run, held=older.held)
        except LeftToOtherProcesses:
            await self._put_in_inbox(run)
            self._queue.current = None
            return NextWork.LEAVE_TO_OTHERS
        except SessionBusy as busy:
            await self._inbox_queue.follow_or_put(self._queue, run, busy)
            return NextWork.WAIT
        except StaleWriter as stale:
            # Without an expected revision, other writers kept interfering.
            problem = SessionBusy.answering(run.key.id) if run.revision is None else stale
            await self._inbox_queue.follow_or_put(self._queue, run, problem)
            return NextWork.WAIT
        if session is not None:
            self._context.expiries.note(session)
            return NextWork.CONTINUE if session.queued else NextWork.DONE
        # Another process took the session over.
        assert run.invocation.id is not None
        self._context.followers.follow_invocation(run, run.invocation.id)
        return NextWork.WAIT

    async def _serve_in_context(self, run: MessageRun) -> Session | None:
        """Runs `Driver.serve` in the caller's context. A queued message needs a new task, since this one began for another
        message.
        """
        serving = self._context.driver.serve(run)
        if run.context is None or not run.queued:
            return await serving
        return await asyncio.create_task(serving, context=run.context)

    async def _wait_for_older(self, run: MessageRun, *, held: bool) -> NextWork:
        """Queues the run after an older message, and recovers that one unless another process holds the session."""
        if not run.queued and run.config.when_busy == "reject":
            run.fail(SessionBusy.answering(run.key.id))
        else:
            await self._put_in_inbox(run)
        self._queue.current = None
        if held:
            return NextWork.WAIT
        try:
            await self._recover()
        except LeftToOtherProcesses:
            return NextWork.LEAVE_TO_OTHERS
        return NextWork.CONTINUE

    async def _put_in_inbox(self, run: MessageRun) -> None:
        """Puts the message in the inbox, unless it is in it, and queues the run."""
        if run.queued:
            self._inbox_queue.put(self._queue, run)
            return
        try:
            await self._inbox_queue.accept(self._queue, run)
        except TurnwiseError as problem:
            run.fail(problem)

    async def _recover(self) -> bool:
        """Resumes unfinished work of a dead process; False when there is none. Raises LeftToOtherProcesses."""
        unfinished = await self._context.recovery.find_unfinished(self._queue.key)
        if unfinished is None:
            return False
        if unfinished.attempt < SUSPECT_ATTEMPT:
            await self._resume(unfinished)
            return True
        if not self._context.suspect_limit.try_enter() and not await self._enter_suspect_limit():
            return True
        try:
            await self._resume(unfinished)
        finally:
            self._context.suspect_limit.release()
        return True

    async def _enter_suspect_limit(self) -> bool:
        """Releases the slot until both limits can be entered. Returns False, outside both, when there is nothing left to do."""
        self._limit.release()
        self._inside = False
        if not await self._slot_waiter.enter(self._context.suspect_limit, recovers=True):
            return False
        try:
            self._inside = await self._slot_waiter.enter(self._limit, recovers=True)
        finally:
            if not self._inside:
                self._context.suspect_limit.release()
        return self._inside

    async def _resume(self, unfinished: UnfinishedWork) -> None:
        """Resumes the unfinished work. If another process was faster, follows the invocation."""
        self._queue.current = unfinished.run
        self._context.cancel_listener.listen()
        try:
            resumed = await self._context.recovery.resume(unfinished)
        except (SessionBusy, StaleWriter):
            resumed = None
        except BaseException as problem:
            unfinished.run.fail(problem)
            raise
        finally:
            self._queue.current = None
        if resumed is None:
            # Another process was faster, or took over.
            self._context.followers.follow_invocation(unfinished.run, unfinished.orphan.invocation_id)
        else:
            self._context.expiries.note(resumed)

    def _is_elsewhere(self, session: Session) -> bool:
        return session.holder not in (None, self._context.driver.lease.holder)

    async def _outwait_holder(self) -> bool:
        """Waits until the session is free, and returns True. Returns False when its holder still has it after the time in
        which its death would be noticed: then it lives, and works the session off itself.
        """
        seconds = self._context.driver.lease.seconds
        store, clock = self._store, asyncio.get_running_loop().time
        until = clock() + seconds + min(NOTICED_SECONDS, seconds)
        with store.signals.watch(self._queue.key) as watch:
            while not self._queue.closing and clock() < until:
                session = await store.open(self._queue.key)
                if session is None or not self._is_elsewhere(session):
                    self._recovers = session is not None
                    return self._recovers
                while await watch.next(LOOK_SECONDS) is not None:
                    continue
        return False

    async def _wait_until_free(self, head_start: float = HEAD_START_SECONDS) -> bool:
        """Waits until the session has been free for `head_start` seconds, and returns True.

        Returns False when no one here waits for it any more, since its holder works it off, or when the process closes.
        """
        pause, free, revision = head_start, False, -1
        self._queue.waits_elsewhere = True
        try:
            with self._store.signals.watch(self._queue.key) as watch:
                while not self._queue.closing:
                    session = await self._store.open(self._queue.key)
                    held = session is not None and self._is_elsewhere(session)
                    if free and not held:
                        return True
                    if session is None or session.revision != revision:
                        await self._inbox_queue.send_on(self._queue)
                        revision = session.revision if session else -1
                    if held and not self._queue.waiting:
                        return False
                    pause = head_start if not held else min(2 * pause, self._store.signals.poll_seconds)
                    free = not held
                    while await watch.next(pause) is not None:
                        continue
        finally:
            self._queue.waits_elsewhere = False
        self._fail_waiting(runner_closed())
        return False

    async def _refuse(self, run: MessageRun, problem: Exception) -> None:
        """Removes a queued message that cannot be run from the inbox."""
        if run.queued:
            code = problem.code if isinstance(problem, TurnwiseError) else type(problem).__name__
            await self._store.inbox.refuse(run.key, run.message.id, code)

    def _fail_waiting(self, problem: Exception) -> None:
        """Fails all waiting runs with the reason why the queue is not worked off."""
        for run in (*self._queue.waiting.values(), *([self._first] if self._first else [])):
            run.fail(problem)
        self._queue.waiting.clear()
