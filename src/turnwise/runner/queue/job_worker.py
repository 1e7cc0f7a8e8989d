"""Runs background jobs after the turns that requested them, including jobs of other processes."""

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
from turnwise.ports.agent import Agent, DoesJobs
from turnwise.ports.hooks import Hooks
from turnwise.ports.stores import BackgroundJob, Lease, SessionStore
from turnwise.runner.agent_sets import AgentSets
from turnwise.runner.guardrails import MemoryGuard
from turnwise.runner.memory import MEMORY_JOB
from turnwise.runner.message.open_invocations import orphan_of
from turnwise.runner.record.journal import public_event
from turnwise.runner.record.recorder import append_between_runs
from turnwise.runner.turn.state import Services
from turnwise.telemetry.logs import message_context

AT_ONCE = 16
"""The number of jobs that one process runs at once."""
ATTEMPTS = 3
"""The number of attempts per job, including those that a dead process began."""
LOOK_SECONDS = 0.25
"""The interval at which a finished job checks a busy session, in addition to signals."""
CLOSE_SECONDS = 5.0
"""The time that a closing process waits for its running jobs."""

log = logging.getLogger("turnwise.runner")


class JobWorker:
    """Claims jobs and runs them alongside the answers of this process.

    A job does not hold its session while it runs. Its result is one append, made when no message is being answered there.
    A claim lasts as long as this process lives. A job that lost its claim is cancelled: its session was deleted, or other
    processes found this one dead.
    """

    def __init__(
        self,
        services: Services,
        sets: AgentSets,
        hooks: Sequence[Hooks],
        app: str,
        limits: Limits,
        process: ProcessConfig,
        lease: Lease,
    ) -> None:
        self._services, self._store, self._hooks, self._app = services, services.store, hooks, app
        self._sets = sets
        self._limits, self._process = limits, process
        self._lease = lease
        # A separate holder: the holder of the loop may be answering in the session, and the store would let it in.
        self._writer = lease._replace(holder=SystemIssuer().new_id("jobs"))
        self._guardrails = MemoryGuard(services.guardrails, limits.guardrail_seconds)
        self._running: dict[tuple[SessionKey, str, str], asyncio.Task[None]] = {}
        self._claim_task: asyncio.Task[None] | None = None
        self._check_task: asyncio.Task[None] | None = None
        self._timers: set[asyncio.TimerHandle] = set()
        self._claiming = asyncio.Lock()
        self._is_stopped = False

    def wake(self) -> None:
        """Looks for jobs now: one was stored, or can be claimed again."""
        if self._claim_task is None and not self._is_stopped:
            # A fresh context: the caller is a turn, and the job is not one of its steps.
            self._claim_task = asyncio.get_running_loop().create_task(self._try_claim(), context=Context())

    async def claim(self) -> Sequence[BackgroundJob]:
        """Claims and starts as many jobs as this process has room for, and returns them. Raises the store's errors."""
        async with self._claiming:
            room = AT_ONCE - len(self._running)
            if self._is_stopped or room <= 0:
                return ()
            claimed = await self._store.jobs.claim(self._app, self._lease, limit=room)
            self._begin(claimed)
            return claimed

    async def work_off(self) -> set[SessionKey]:
        """Runs all jobs that can be claimed now, and returns their sessions. Raises the store's errors."""
        keys: set[SessionKey] = set()
        while True:
            keys |= {job.key for job in await self.claim()}
            if not self._running:
                return keys
            await asyncio.wait(list(self._running.values()), return_when=asyncio.FIRST_COMPLETED)

    def stop(self) -> None:
        """Stops claiming jobs."""
        self._is_stopped = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    async def close(self) -> None:
        """Waits CLOSE_SECONDS for running jobs, then leaves them to other processes."""
        self.stop()
        if self._claim_task is not None:
            await asyncio.wait([self._claim_task])
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=CLOSE_SECONDS)
        left = list(self._running.values())
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        if self._check_task is not None:
            self._check_task.cancel()

    def _begin(self, claimed: Sequence[BackgroundJob]) -> None:
        """Starts a task for each claimed job, and the periodic check of the claims."""
        for job in claimed:
            task = asyncio.get_running_loop().create_task(self._run(job), context=Context())
            self._running[job.name] = task
            task.add_done_callback(partial(self._done, job.name))
        if claimed and self._check_task is None:
            self._check_task = asyncio.get_running_loop().create_task(self._check_claims(), context=Context())

    async def _try_claim(self) -> None:
        """Claims and starts jobs. Logs errors instead of raising them."""
        try:
            await self.claim()
        except TurnwiseError as problem:
            # The next turn or worker tries again.
            log.warning("Background jobs cannot be read: %s", problem)
        except Exception:
            log.exception("Background jobs cannot be read.")
        finally:
            self._claim_task = None

    def _done(self, name: tuple[SessionKey, str, str], task: "asyncio.Task[None]") -> None:
        """Removes a finished job. Ends the check of claims after the last one, and looks for more jobs."""
        if self._running.get(name) is task:
            del self._running[name]
        if not self._running and self._check_task is not None:
            self._check_task.cancel()
            self._check_task = None
        if not task.cancelled():
            self.wake()

    async def _check_claims(self) -> None:
        """Asks the store three times per lease which jobs this process still holds, and cancels those that it lost."""
        while True:
            await asyncio.sleep(self._lease.seconds / 3)
            began = dict(self._running)
            try:
                held = {job.name for job in await self._store.jobs.held(self._lease.holder)}
            except TurnwiseError as problem:
                log.warning("The claims of background jobs could not be checked: %s", problem.code)
                continue
            for name in began.keys() - held:
                began[name].cancel()

    async def _run(self, job: BackgroundJob) -> None:
        """Runs a claimed job. A failure puts it back for a retry; a cancellation puts it back without counting the attempt."""
        with message_context(job.key, is_local=False):
            try:
                await self._attempt(job)
            except asyncio.CancelledError:
                # Does nothing when the claim was lost, which is the other reason for a cancellation.
                await self._log_problem(self._store.jobs.put_back(job, self._lease.holder, counts=False))
                raise
            except TurnwiseError as problem:
                await self._failed(job, problem.code, self._process.job_retry_seconds)
            except Exception as problem:
                log.exception("A background job failed.")
                await self._failed(job, type(problem).__name__, self._process.job_retry_seconds)

    async def _attempt(self, job: BackgroundJob) -> None:
        with self._sets.hold() as hold:
            await self._attempt_with(hold.agent_set.agents.get(job.agent), job)

    async def _attempt_with(self, agent: Agent | None, job: BackgroundJob) -> None:
        """Has the memory or the agent do the job. Drops it after ATTEMPTS; retries later if this process lacks the agent."""
        if job.attempt > ATTEMPTS:
            await self._drop(job, "its process died each time")
        elif job.request.kind == MEMORY_JOB:
            memory, now = self._services.memory, self._services.issuer.now()
            await self._do(job, memory.do_job(job, self._log(job), now))
        elif agent is None:
            await self._failed(job, "this process has no such agent", self._process.unknown_agent_seconds)
        elif not isinstance(agent, DoesJobs):
            await self._drop(job, "the agent does no jobs")
        else:
            await self._do(job, agent.do_job(job, self._log(job)))

    def _log(self, job: BackgroundJob) -> "_Log":
        return _Log(self._store, job.key, self._limits.history_events)

    async def _do(self, job: BackgroundJob, work: Awaitable[Actions | None]) -> None:
        """Does a job within the time of an invocation, and records its result."""
        async with asyncio.timeout(self._limits.invocation_seconds):
            result = await work
        if result is not None:
            await self._record(job, await self._guardrails.event(await self._event(job, result)))
        await self._store.jobs.finish(job, self._lease.holder)
        if result is not None and result.remembered:
            self._services.memory.encode_later(job.key.user)

    async def _event(self, job: BackgroundJob, result: Actions) -> Event:
        """Returns the event that records a job's result, without memory entries that guardrails or a full memory refuse."""
        checked = [await self._guardrails.memory(entry, job.agent) for entry in result.remembered]
        remembered = tuple(entry for entry in checked if entry is not None)
        allowances = self._services.allowances
        if remembered and not await allowances.has_memory_room(job.key, self._limits, entries=len(remembered)):
            log.warning("The memory of a user is full: %d entries were not stored.", len(remembered))
            remembered = ()
        return Event(
            # Equal for all attempts, so that two of them record one result.
            id=f"{job.event_id}.{job.request.kind}",
            author=job.agent,
            invocation_id=self._services.issuer.new_id("job"),
            created_at=self._services.issuer.now(),
            actions=Actions(summary=result.summary, usage=result.usage, remembered=remembered),
        )

    async def _record(self, job: BackgroundJob, event: Event) -> None:
        """Appends the result once no message is being answered in the session. Drops it if the job was lost or deleted."""
        pause = max(LOOK_SECONDS, self._store.signals.poll_seconds)
        with self._store.signals.watch(job.key) as watch:
            while (session := await self._store.open(job.key)) is not None:
                # The lease of a dead process is not released here: recovery depends on it.
                if session.held or orphan_of(session) is not None:
                    while await watch.next(pause) is not None:
                        continue
                    continue
                # Checked after the session was read: deleting the job from now on makes the session token stale.
                if job.name not in {held.name for held in await self._store.jobs.held(self._lease.holder)}:
                    return
                try:
                    await append_between_runs(self._store, self._hooks, session, self._writer, [event])
                except SessionMissing:
                    return
                except (SessionBusy, StaleWriter):
                    continue
                return

    async def _failed(self, job: BackgroundJob, why: str, pause: float) -> None:
        """Puts the job back to be claimed after `pause` seconds; after ATTEMPTS, drops it."""
        if job.attempt >= ATTEMPTS:
            await self._drop(job, why)
            return
        log.warning("The job %r of agent %r failed and is retried: %s", job.request.kind, job.agent, why)
        await self._log_problem(self._store.jobs.put_back(job, self._lease.holder, pause=pause))
        if not self._is_stopped:
            self._wake_in(pause)

    async def _drop(self, job: BackgroundJob, why: str) -> None:
        text = "The job %r of agent %r is dropped after %d attempts: %s"
        log.warning(text, job.request.kind, job.agent, job.attempt, why)
        await self._log_problem(self._store.jobs.finish(job, self._lease.holder))

    async def _log_problem(self, call: Awaitable[None]) -> None:
        try:
            await call
        except TurnwiseError as problem:
            # The claim ends with this process.
            log.warning("The claim of a background job could not be released: %s", problem.code)

    def _wake_in(self, seconds: float) -> None:
        """Looks for jobs again after that many seconds."""

        def wake() -> None:
            self._timers.discard(timer)
            self.wake()

        timer = asyncio.get_running_loop().call_later(seconds, wake)
        self._timers.add(timer)


class _Log:
    """The log of a job's session. Implements `LogPages`."""

    def __init__(self, store: SessionStore, key: SessionKey, most: int) -> None:
        self._store, self._key, self._most = store, key, most

    async def backwards(self, page: int = 40) -> AsyncIterator[list[Event]]:
        """Yields pages of the session's events, the newest page first, each in log order, up to the limit of events."""
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
