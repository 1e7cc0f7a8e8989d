"""Does background jobs after the turns that asked for them, whichever process left them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextvars import Context
from functools import partial

from turnwise.facts.errors import SessionBusy, SessionMissing, StaleWriter, TurnwiseError
from turnwise.facts.events import Actions, Event
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.limits import Limits, ProcessConfig
from turnwise.facts.sessions import SessionKey
from turnwise.ports.hooks import Hooks
from turnwise.ports.jobs import DoesJobs
from turnwise.ports.stores import BackgroundJob, Lease, SessionStore
from turnwise.runner.guards.guardrails import Guardrails
from turnwise.runner.message.recovery_rules import orphan_of
from turnwise.runner.record.journal import public_event
from turnwise.runner.record.recorder import write_apart
from turnwise.runner.turn.state import Runtime
from turnwise.telemetry.log_context import message_context

AT_ONCE = 16
"""How many jobs one process does at once."""
ATTEMPTS = 3
"""How often a job is tried, with those attempts whose process died."""
LOOK_SECONDS = 0.25
"""How long a ready result waits between two looks at a busy session; signals come besides."""
CLOSE_SECONDS = 5.0
"""How long a process that closes waits for the jobs that it has begun."""

log = logging.getLogger("turnwise.runner")


class JobWorker:
    """Claims jobs that nobody does, and does them beside the answers of this process.

    A job holds no session while it is done. Its result is one append, made when nobody is being answered in the session.
    A claim is renewed as long as the job is done here; a job whose claim is lost is given up.
    """

    def __init__(self, cast: Runtime, hooks: Sequence[Hooks], app: str, limits: Limits, process: ProcessConfig) -> None:
        self._cast, self._store, self._hooks, self._app = cast, cast.store, hooks, app
        self._limits, self._process = limits, process
        # Its own holder: the desk's may be answering in the session, and would be let in.
        self._lease = Lease(SystemIssuer().new_id("jobs"), process.lease_seconds)
        self._guarding = Guardrails(cast.guardrails, limits.guardrail_seconds)
        self._running: dict[tuple[SessionKey, str, str], asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._timers: set[asyncio.TimerHandle] = set()
        self._claiming = asyncio.Lock()
        self._is_stopped = False

    def wake(self) -> None:
        """Looks for jobs now: one was stored, or may be claimed again."""
        if self._looking is None and not self._is_stopped:
            # Not in the context of whoever wakes: that is a turn, and the job is none of its steps.
            self._looking = asyncio.get_running_loop().create_task(self._look(), context=Context())

    async def claim(self) -> Sequence[BackgroundJob]:
        """Begins the jobs that this process has room for; returns them. Raises what the store raises."""
        async with self._claiming:
            room = AT_ONCE - len(self._running)
            if self._is_stopped or room <= 0:
                return ()
            claimed = await self._store.jobs.claim(self._app, self._lease, limit=room)
            self._begin(claimed)
            return claimed

    async def work_off(self) -> set[SessionKey]:
        """Does all jobs that can be claimed now; returns their sessions when they are done. Raises what the store raises."""
        keys: set[SessionKey] = set()
        while True:
            keys |= {job.key for job in await self.claim()}
            if not self._running:
                return keys
            await asyncio.wait(list(self._running.values()), return_when=asyncio.FIRST_COMPLETED)

    def stop(self) -> None:
        """Begins no more jobs."""
        self._is_stopped = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    async def close(self) -> None:
        """Waits a while for the jobs that are being done, then leaves them to other processes."""
        self.stop()
        if self._looking is not None:
            await asyncio.wait([self._looking])
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=CLOSE_SECONDS)
        left = list(self._running.values())
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        if self._renewing is not None:
            self._renewing.cancel()

    def _begin(self, claimed: Sequence[BackgroundJob]) -> None:
        for job in claimed:
            task = asyncio.get_running_loop().create_task(self._do(job), context=Context())
            self._running[job.name] = task
            task.add_done_callback(partial(self._done, job.name))
        if claimed and self._renewing is None:
            self._renewing = asyncio.get_running_loop().create_task(self._renew(), context=Context())

    async def _look(self) -> None:
        try:
            await self.claim()
        except TurnwiseError as problem:
            # The next turn, or a worker, looks again.
            log.warning("Background jobs cannot be read: %s", problem)
        except Exception:
            log.exception("Background jobs cannot be read.")
        finally:
            self._looking = None

    def _done(self, name: tuple[SessionKey, str, str], task: "asyncio.Task[None]") -> None:
        if self._running.get(name) is task:
            del self._running[name]
        if not self._running and self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        if not task.cancelled():
            self.wake()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease.seconds / 3)
            began = dict(self._running)
            try:
                held = {job.name for job in await self._store.jobs.renew(self._lease)}
            except TurnwiseError as problem:
                log.warning("The claims of background jobs could not be renewed: %s", problem.code)
                continue
            for name in began.keys() - held:
                began[name].cancel()

    async def _do(self, job: BackgroundJob) -> None:
        with message_context(job.key, is_local=False):
            try:
                await self._try(job)
            except asyncio.CancelledError:
                # Nothing happens when the claim was lost, which is the other reason for this.
                await self._settle(self._store.jobs.put_back(job, self._lease.holder, counts=False))
                raise
            except TurnwiseError as problem:
                await self._failed(job, problem.code, self._process.job_retry_seconds)
            except Exception as problem:
                log.exception("A background job failed.")
                await self._failed(job, type(problem).__name__, self._process.job_retry_seconds)

    async def _try(self, job: BackgroundJob) -> None:
        agent = self._cast.agents.get(job.agent)
        if job.attempt > ATTEMPTS:
            await self._drop(job, "its process died each time")
        elif agent is None:
            await self._failed(job, "this process has no such agent", self._process.unknown_agent_seconds)
        elif not isinstance(agent, DoesJobs):
            await self._drop(job, "the agent does no jobs")
        else:
            async with asyncio.timeout(self._limits.invocation_seconds):
                made = await agent.do_job(job, _Log(self._store, job.key, self._limits.history_events))
            if made is not None:
                await self._record(job, await self._guarding.event(self._event(job, made)))
            await self._store.jobs.finish(job, self._lease.holder)

    def _event(self, job: BackgroundJob, made: Actions) -> Event:
        return Event(
            # The same for every attempt, so that two of them record one result.
            id=f"{job.event_id}.{job.request.kind}",
            author=job.agent,
            invocation_id=self._cast.issuer.new_id("job"),
            created_at=self._cast.issuer.now(),
            actions=Actions(summary=made.summary, usage=made.usage),
        )

    async def _record(self, job: BackgroundJob, event: Event) -> None:
        """Appends the result when nobody is being answered in the session, unless the job was lost or deleted by then."""
        pause = max(LOOK_SECONDS, self._store.signals.poll_seconds)
        with self._store.signals.watch(job.key) as watch:
            while (session := await self._store.open(job.key)) is not None:
                # A lease that a dead process left is not given up here: recovery looks for it.
                if session.held or orphan_of(session) is not None:
                    while await watch.next(pause) is not None:
                        continue
                    continue
                # After the session is read: whatever deletes the job from now on makes that token stale.
                if job.name not in {held.name for held in await self._store.jobs.renew(self._lease)}:
                    return
                try:
                    await write_apart(self._store, self._hooks, session, self._lease, [event])
                except SessionMissing:
                    return
                except (SessionBusy, StaleWriter):
                    continue
                return

    async def _failed(self, job: BackgroundJob, why: str, pause: float) -> None:
        if job.attempt >= ATTEMPTS:
            await self._drop(job, why)
            return
        log.warning("The job %r of agent %r failed, and is tried again: %s", job.request.kind, job.agent, why)
        await self._settle(self._store.jobs.put_back(job, self._lease.holder, pause=pause))
        if not self._is_stopped:
            self._wake_in(pause)

    async def _drop(self, job: BackgroundJob, why: str) -> None:
        told = "The job %r of agent %r is dropped after %d attempts: %s"
        log.warning(told, job.request.kind, job.agent, job.attempt, why)
        await self._settle(self._store.jobs.finish(job, self._lease.holder))

    async def _settle(self, call: Awaitable[None]) -> None:
        try:
            await call
        except TurnwiseError as problem:
            # The claim runs out by itself.
            log.warning("A background job could not be given back: %s", problem.code)

    def _wake_in(self, seconds: float) -> None:
        def wake() -> None:
            self._timers.discard(timer)
            self.wake()

        timer = asyncio.get_running_loop().call_later(seconds, wake)
        self._timers.add(timer)


class _Log:
    """The log of a job's session (implements `LogPages`)."""

    def __init__(self, store: SessionStore, key: SessionKey, most: int) -> None:
        self._store, self._key, self._most = store, key, most

    async def backwards(self, page: int = 40) -> AsyncIterator[list[Event]]:
        left, before = self._most, None
        while left > 0:
            asked = max(1, min(page, left))
            events = await self._store.events(self._key, before=before, last=asked)
            if events:
                yield [public_event(event) for event in events]
                before = events[0].sequence
            if len(events) < asked:
                return
            left -= asked
