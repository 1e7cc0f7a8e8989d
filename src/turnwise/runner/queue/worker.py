"""One stretch of work on a session: the message at hand, then its inbox, as long as no other process does it."""

import asyncio
import enum
import logging
import weakref
from collections.abc import Callable, Sequence
from typing import NamedTuple

from turnwise.facts.errors import SessionBusy, StaleWriter, StoreError, TurnwiseError
from turnwise.facts.limits import RunConfig
from turnwise.facts.sessions import Session
from turnwise.ports.stores import SessionStore
from turnwise.runner.message.driver import Driver
from turnwise.runner.message.invocation import MessageRun
from turnwise.runner.message.planning import UnfinishedMessage
from turnwise.runner.message.recovery import Recovery, UnfinishedWork
from turnwise.runner.message.recovery_rules import LeftToOtherProcesses, orphan_of
from turnwise.runner.queue.followers import Followers
from turnwise.runner.queue.limit import ConcurrencyLimit
from turnwise.runner.queue.queue import InboxQueue, SessionQueue

FIRST_LOOK_SECONDS = 0.05
"""Most places come sooner, and nothing is read for them."""
LOOKS_PER_SECOND = 100
"""How often all who wait at one gate look at the store, together; signals come besides."""


class SlotWaiter:
    """Waits at gates for one lane. Messages of the lane that another process takes leave the line here, and follow it.

    holder: the name of this process on leases.
    """

    def __init__(self, store: SessionStore, lane: SessionQueue, line: InboxQueue, holder: str) -> None:
        self._store, self._lane, self._line, self._holder = store, lane, line, holder

    async def enter(self, gate: ConcurrencyLimit, *, first: bool = False, recovers: bool = False) -> bool:
        """Enters when it is one's turn: True. False, outside, as soon as there is nothing to do in the session here.

        first: somebody waits for it whose message is not stored. recovers: the session is also looked through for what a
        dead process left.
        """
        if gate.try_enter():
            return True
        place, stays = gate.line_up(), False
        try:
            while not place.done():
                await self._until_news(gate, place, first=first, recovers=recovers)
                if not place.done() and not (first or self._lane.waiting):
                    return False
            # What others left is not taken up any more once the process closes.
            stays = first or bool(self._lane.waiting) or not self._lane.closing
            return stays
        finally:
            if not stays:
                gate.give_up(place)

    async def _until_news(self, gate: ConcurrencyLimit, place: "asyncio.Future[None]", *, first: bool, recovers: bool) -> None:
        """Returns when the place has come, or when there was nothing to do here at the last look."""
        looking = asyncio.create_task(self._look(gate, first=first, recovers=recovers))
        try:
            await asyncio.wait({place, looking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            looking.cancel()
        if not place.done():
            looking.result()

    async def _look(self, gate: ConcurrencyLimit, *, first: bool, recovers: bool) -> None:
        signals, seen, pause = self._store.signals, (-1, 0), FIRST_LOOK_SECONDS
        with signals.watch(self._lane.key) as watch:
            while True:
                while await watch.next(max(pause, gate.waiting / LOOKS_PER_SECOND)) is not None:
                    continue
                pause = min(2 * pause, signals.poll_seconds)
                try:
                    session = await self._store.open(self._lane.key)
                    now = (session.revision, session.queued) if session else (-1, 0)
                    if now[0] != seen[0] or now[1] < seen[1] or session is None:
                        await self._line.send_on(self._lane)
                except StoreError:
                    # Whoever comes in hears of it, if it has not passed by then.
                    continue
                seen = now
                if not (first or self._lane.waiting or self._has_work(session, recovers=recovers)):
                    return

    def _has_work(self, session: Session | None, *, recovers: bool) -> bool:
        """Whether there is something to do for others: whoever holds the session does it, if anybody does."""
        if session is None or self._lane.closing or session.holder not in (None, self._holder):
            return False
        return session.queued > 0 or (recovers and orphan_of(session, self._holder) is not None)


LOOK_SECONDS = 0.25

log = logging.getLogger("turnwise.runner")


class CancelListener:
    """Looks for what is to be stopped, as long as something runs here. `running` gives that."""

    def __init__(self, store: SessionStore, holder: str, running: Callable[[], Sequence[MessageRun]]) -> None:
        self._store, self._holder, self._running = store, holder, running
        self._ears: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None] | None]
        self._ears = weakref.WeakKeyDictionary()

    def listen(self) -> None:
        """Something runs in this event loop from now on."""
        loop = asyncio.get_running_loop()
        if loop not in self._ears:
            # A timer, not a task: most answers are given before it is due.
            self._ears[loop] = None
            loop.call_later(LOOK_SECONDS, self._wake, loop)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._running():
            self._ears[loop] = loop.create_task(self._look(loop))
        else:
            del self._ears[loop]

    async def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            for key, invocation_id in await self._store.leases.stops(self._holder):
                for job in self._running():
                    if job.key == key and job.invocation.id == invocation_id:
                        job.invocation.interrupt()
        except TurnwiseError as problem:
            log.debug("What is to be stopped could not be read: %s", problem.code)
        loop.call_later(LOOK_SECONDS, self._wake, loop)


HEAD_START_SECONDS = 0.05
"""How long others leave a free session to who gave it up: that process works its inbox off."""
LEFT_SECONDS = 0.5
"""How often is looked whether what is left to others was taken."""
SUSPECT_ATTEMPT = 3
"""From this attempt on, invocations run one at a time: one of them may be what kills processes."""


class NextWork(enum.Enum):
    """What comes next: another message; a wait, because somebody else has the session; a longer wait, because somebody else
    is to take it; or nothing.
    """

    AGAIN = enum.auto()
    WAIT = enum.auto()
    LEAVE = enum.auto()
    REST = enum.auto()


class WorkerContext(NamedTuple):
    """What all shifts of one desk work with. `config` is for messages that came without one of their own."""

    driver: Driver
    recovering: Recovery
    store: SessionStore
    config: RunConfig
    gate: ConcurrencyLimit
    suspects: ConcurrencyLimit
    followers: Followers
    line: InboxQueue
    stops: CancelListener


class SessionWorker:
    """Works one lane off, in the gate's turn.

    first: a message that is not stored yet. recover: look also for what a dead process left. inside: the gate was entered.
    """

    def __init__(
        self, tools: WorkerContext, lane: SessionQueue, first: MessageRun | None, *, recover: bool, inside: bool
    ) -> None:
        self._tools, self._lane = tools, lane
        self._store, self._gate, self._line = tools.store, tools.gate, tools.line
        self._first, self._recovers, self._inside = first, recover, inside
        self._lookout = SlotWaiter(tools.store, lane, tools.line, tools.driver.lease.holder)

    async def work(self) -> None:
        """Returns when there is nothing left to do here. Whoever waits in the lane knows then why, if that was an error."""
        try:
            await self._work()
        except Exception as problem:
            if not isinstance(problem, TurnwiseError):
                log.exception("The runner failed in session %s.", self._lane.key.id)
            # What is in the inbox stays there, for whoever comes when the store is back.
            self._tell(problem)
        except asyncio.CancelledError:
            self._tell(_closed())
            raise

    async def _work(self) -> None:
        lane, doing = self._lane, NextWork.AGAIN
        while (doing is not NextWork.REST and not lane.closing) or lane.waiting or self._first:
            if doing is NextWork.WAIT and not await self._wait():
                return
            if doing is NextWork.LEAVE and not (lane.waiting and await self._wait(LEFT_SECONDS)):
                return
            if not self._inside:
                self._inside = await self._lookout.enter(self._gate, first=bool(self._first), recovers=self._recovers)
            if not self._inside:
                return
            try:
                doing = await self._serve(self._first) if self._first else await self._advance()
            finally:
                if self._inside:
                    self._gate.leave()
                self._first, self._inside, lane.current = None, False, None

    async def _advance(self) -> NextWork:
        """Answers the oldest message of the inbox."""
        recover, self._recovers = self._recovers, False
        oldest = await self._store.inbox.queued(self._lane.key)
        if oldest is not None:
            job = self._lane.waiting.pop(oldest.id, None)
            job = job or MessageRun(self._lane.key, oldest, oldest.config or self._tools.config)
            job.queued = True
            return await self._serve(job)
        if recover:
            try:
                if await self._recover():
                    return NextWork.AGAIN
            except LeftToOtherProcesses:
                return NextWork.LEAVE
            await self._tools.recovering.give_up(self._lane.key)
        await self._line.send_on(self._lane)
        return NextWork.REST

    async def _serve(self, job: MessageRun) -> NextWork:
        """Answers the job, or finds out who does. Raises what the store raises; the job's readers know it then."""
        self._lane.current = job
        self._tools.stops.listen()
        try:
            return await self._answer(job)
        except StoreError as problem:
            # It may pass: the message is not refused for it.
            job.fail(problem)
            raise
        except Exception as problem:
            if not isinstance(problem, TurnwiseError):
                log.exception("The runner failed on message %s of session %s.", job.message.id, job.key.id)
            job.fail(problem)
            await self._refuse(job, problem)
            return NextWork.AGAIN
        except BaseException as stopped:
            job.fail(stopped)
            raise

    async def _answer(self, job: MessageRun) -> NextWork:
        try:
            session = await self._served(job)
        except UnfinishedMessage as older:
            return await self._after_another(job, held=older.held)
        except LeftToOtherProcesses:
            await self._keep(job)
            self._lane.current = None
            return NextWork.LEAVE
        except SessionBusy as busy:
            if job.config.when_busy == "reject" and not job.queued:
                job.fail(busy)
            else:
                await self._line.follow_or_put(self._lane, job)
            return NextWork.WAIT
        except StaleWriter:
            await self._line.follow_or_put(self._lane, job)
            return NextWork.WAIT
        if session is not None:
            return NextWork.AGAIN if session.queued else NextWork.REST
        # It was lost to another process.
        assert job.invocation.id is not None
        self._tools.followers.follow_invocation(job, job.invocation.id)
        return NextWork.WAIT

    async def _served(self, job: MessageRun) -> Session | None:
        """As `Driver.serve`, for whom sent it: this task was begun for another message if the job waited in line."""
        serving = self._tools.driver.serve(job)
        if job.context is None or not job.queued:
            return await serving
        return await asyncio.create_task(serving, context=job.context)

    async def _after_another(self, job: MessageRun, *, held: bool) -> NextWork:
        """An older message is to be answered first: by who holds the session, else it is recovered."""
        if not job.queued and job.config.when_busy == "reject":
            job.fail(SessionBusy.answering(job.key.id))
        else:
            await self._keep(job)
        self._lane.current = None
        if held:
            return NextWork.WAIT
        try:
            await self._recover()
        except LeftToOtherProcesses:
            return NextWork.LEAVE
        return NextWork.AGAIN

    async def _keep(self, job: MessageRun) -> None:
        """Puts the message in the inbox, unless it is there, and the job in line."""
        if job.queued:
            self._line.put(self._lane, job)
            return
        try:
            await self._line.accept(self._lane, job)
        except TurnwiseError as problem:
            job.fail(problem)

    async def _recover(self) -> bool:
        """Runs again what a dead process left; False when there is nothing. LeftToOthers."""
        left = await self._tools.recovering.leftover(self._lane.key)
        if left is None:
            return False
        if left.attempt < SUSPECT_ATTEMPT:
            await self._resume(left)
            return True
        if not self._tools.suspects.try_enter() and not await self._enter_as_suspect():
            return True
        try:
            await self._resume(left)
        finally:
            self._tools.suspects.leave()
        return True

    async def _enter_as_suspect(self) -> bool:
        """Lets others be answered until both gates are passed. False, outside of both, when that is no use any more."""
        self._gate.leave()
        self._inside = False
        if not await self._lookout.enter(self._tools.suspects, recovers=True):
            return False
        try:
            self._inside = await self._lookout.enter(self._gate, recovers=True)
        finally:
            if not self._inside:
                self._tools.suspects.leave()
        return self._inside

    async def _resume(self, left: UnfinishedWork) -> None:
        self._lane.current = left.job
        self._tools.stops.listen()
        try:
            resumed = await self._tools.recovering.resume(left)
        except (SessionBusy, StaleWriter):
            resumed = None
        except BaseException as problem:
            left.job.fail(problem)
            raise
        finally:
            self._lane.current = None
        if resumed is None:
            # Somebody else was faster, or took it away.
            self._tools.followers.follow_invocation(left.job, left.orphan.invocation_id)

    async def _wait(self, head_start: float = HEAD_START_SECONDS) -> bool:
        """Returns when the session was free for `head_start` seconds: True; or when nobody here waits for it any more, for its
        holder works it off.
        """
        pause, free, revision = head_start, False, -1
        self._lane.looks_elsewhere = True
        try:
            with self._store.signals.watch(self._lane.key) as watch:
                while not self._lane.closing:
                    session = await self._store.open(self._lane.key)
                    held = session is not None and session.holder not in (None, self._tools.driver.lease.holder)
                    if free and not held:
                        return True
                    if session is None or session.revision != revision:
                        await self._line.send_on(self._lane)
                        revision = session.revision if session else -1
                    if held and not self._lane.waiting:
                        return False
                    pause = head_start if not held else min(2 * pause, self._store.signals.poll_seconds)
                    free = not held
                    while await watch.next(pause) is not None:
                        continue
        finally:
            self._lane.looks_elsewhere = False
        self._tell(_closed())
        return False

    async def _refuse(self, job: MessageRun, problem: Exception) -> None:
        """Takes a queued message that cannot be run out of the inbox."""
        if job.queued:
            code = problem.code if isinstance(problem, TurnwiseError) else type(problem).__name__
            await self._store.inbox.refuse(job.key, job.message.id, code)

    def _tell(self, problem: Exception) -> None:
        """Tells everybody who waits here why the session is not worked off."""
        for job in (*self._lane.waiting.values(), *([self._first] if self._first else [])):
            job.fail(problem)
        self._lane.waiting.clear()


def _closed() -> SessionBusy:
    return SessionBusy("The runner was closed while another process answers.", fix="Ask again by the message's id.")
