"""Threads for guardrails with a sync `check`. A check that hangs blocks its thread, never the event loop."""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MOST = 8
"""The number of checks that run at once in this process. Others wait, at most for a check's timeout."""


class _Outcome(NamedTuple):
    value: Any = None
    problem: BaseException | None = None


@dataclass
class _Job:
    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[_Outcome]"
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    has_begun: bool = False
    is_abandoned: bool = False


class CheckThreads:
    """A pool of at most `most` daemon threads, started on demand. Safe to use from several event loops."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.stuck = 0
        """The number of threads that run a check whose caller no longer waits."""
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = self._busy = 0

    async def run(self, work: Callable[[], Any]) -> Any:
        """Runs `work` in a thread; returns its result or raises its exception.

        When cancelled, work in progress continues in its thread and counts as stuck until it ends. Queued work is
        dropped.
        """
        loop = asyncio.get_running_loop()
        job = _Job(work, loop, loop.create_future())
        with self._lock:
            self._busy += 1
            starts = self._threads < min(self.most, self._busy)
            self._threads += starts
        self._jobs.put(job)
        if starts:
            threading.Thread(target=self._work, name="turnwise-check", daemon=True).start()
        try:
            outcome = await job.done
        except asyncio.CancelledError:
            with self._lock:
                job.is_abandoned = True
                self.stuck += job.has_begun
            raise
        if outcome.problem is not None:
            raise outcome.problem
        return outcome.value

    def _work(self) -> None:
        while True:
            self._do(self._jobs.get())

    def _do(self, job: _Job) -> None:
        """Runs one job in a worker thread and delivers its result. Skips a job that was cancelled while queued."""
        with self._lock:
            job.has_begun = not job.is_abandoned
            self._busy -= not job.has_begun
        if not job.has_begun:
            return
        try:
            outcome = _Outcome(job.context.run(job.work))
        except BaseException as problem:
            outcome = _Outcome(problem=problem)
        with self._lock:
            self._busy -= 1
            self.stuck -= job.is_abandoned
            if not job.is_abandoned:
                _deliver(job, outcome)


def _deliver(job: _Job, outcome: _Outcome) -> None:
    if not job.loop.is_closed():
        job.loop.call_soon_threadsafe(lambda: None if job.done.done() else job.done.set_result(outcome))


CHECKS = CheckThreads()
"""The pool of this process."""
