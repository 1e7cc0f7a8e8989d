"""Where messages are answered: one desk for each event loop. To each other they are like processes."""

import asyncio
import weakref
from collections.abc import Sequence
from typing import NamedTuple

from turnwise.facts.ids import SystemIssuer
from turnwise.facts.limits import ProcessConfig, RunConfig
from turnwise.ports.hooks import Hooks
from turnwise.ports.stores import Lease
from turnwise.runner.message.driver import Driver
from turnwise.runner.message.recovery import Recovery
from turnwise.runner.message.recovery_rules import UnknownAgents
from turnwise.runner.queue.job_worker import JobWorker
from turnwise.runner.queue.queues import RecoveryLoop, SessionQueues
from turnwise.runner.turn.state import Runtime
from turnwise.selection.cascade import Cascade


class LoopRuntime(NamedTuple):
    """All that answers messages in one event loop, under one holder's name."""

    driver: Driver
    lanes: SessionQueues
    rounds: RecoveryLoop
    jobs: JobWorker


class LoopRuntimes:
    """Makes a desk when an event loop first needs one; it goes with the loop.

    What asyncio makes belongs to one loop. So loops that share a runner, such as that of `run_sync` and one of its
    program's own, share a session as processes do: by its lease.
    """

    def __init__(
        self, cast: Runtime, cascade: Cascade, hooks: Sequence[Hooks], app: str, config: RunConfig, process: ProcessConfig
    ) -> None:
        self._cast, self._cascade, self._hooks = cast, cascade, hooks
        self._app, self.config, self._process = app, config, process
        self._made: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopRuntime] = weakref.WeakKeyDictionary()

    @property
    def here(self) -> LoopRuntime:
        """The running event loop's desk."""
        loop = asyncio.get_running_loop()
        desk = self._made.get(loop)
        if desk is None:
            desk = self._made[loop] = self._make()
        return desk

    def _make(self) -> LoopRuntime:
        # Whatever issues the other ids: no two holders may have this one.
        lease = Lease(SystemIssuer().new_id("runner"), self._process.lease_seconds)
        unknown = UnknownAgents(self._cast.tree, self._process.unknown_agent_seconds)
        jobs = JobWorker(self._cast, self._hooks, self._app, self.config.limits, self._process)
        driver = Driver(self._cast, self._cascade, self._hooks, lease, unknown, jobs.wake)
        recovering = Recovery(self._cast, driver, self.config, unknown)
        lanes = SessionQueues(driver, recovering, self._cast.store, self.config, concurrency=self._process.concurrency)
        rounds = RecoveryLoop(self._cast.store, lanes, jobs, self._app, self._process.recovery_seconds)
        return LoopRuntime(driver, lanes, rounds, jobs)
