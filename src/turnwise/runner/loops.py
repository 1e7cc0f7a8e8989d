"""One runtime per event loop. The loops of one process share sessions as separate processes do."""

import asyncio
import os
import platform
import weakref
from collections.abc import Sequence
from typing import NamedTuple

from turnwise.dispatch.local import LocalDispatcher
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.limits import ProcessConfig, RunConfig
from turnwise.ports.dispatcher import MakesDispatcher, WorkOff
from turnwise.ports.hooks import Hooks
from turnwise.ports.retention import Retention
from turnwise.ports.stores import Lease
from turnwise.runner.agent_sets import AgentSets, Introduction
from turnwise.runner.experiments import ShadowCounts, Shadows
from turnwise.runner.message.driver import Driver
from turnwise.runner.message.open_invocations import UnknownAgents
from turnwise.runner.message.recovery import Recovery
from turnwise.runner.queue.job_worker import JobWorker
from turnwise.runner.queue.queues import SessionQueues
from turnwise.runner.queue.recovery_loop import RecoveryLoop
from turnwise.runner.queue.retention import Pruning
from turnwise.runner.turn.state import Services


class LoopRuntime(NamedTuple):
    """The services that answer messages in one event loop, under one lease holder."""

    driver: Driver
    queues: SessionQueues
    recovery_loop: RecoveryLoop
    jobs: JobWorker


class LoopRuntimes:
    """Creates a runtime when an event loop first needs one. It is discarded with the loop.

    asyncio objects belong to one loop. Two loops that share a runner, such as that of `run_sync` and the program's own,
    therefore share sessions as processes do: by lease.
    """

    def __init__(
        self,
        services: Services,
        sets: AgentSets,
        hooks: Sequence[Hooks],
        app: str,
        config: RunConfig,
        process: ProcessConfig,
        retention: Retention,
        make_dispatcher: MakesDispatcher | None = None,
    ) -> None:
        self._services, self._sets, self._hooks = services, sets, hooks
        self._app, self.config, self._process = app, config, process
        self.shadow_counts = ShadowCounts()
        self.pruning = Pruning(services.store, services.artifacts, app, retention, services.issuer.now)
        self._make_dispatcher = make_dispatcher or self._local_dispatcher
        self._by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopRuntime] = weakref.WeakKeyDictionary()

    @property
    def current(self) -> LoopRuntime:
        """The runtime of the running event loop."""
        loop = asyncio.get_running_loop()
        loop_runtime = self._by_loop.get(loop)
        if loop_runtime is None:
            loop_runtime = self._by_loop[loop] = self._make()
        return loop_runtime

    def _make(self) -> LoopRuntime:
        """Builds the runtime of the running event loop: a separate lease holder, driver, queues, recovery and jobs."""
        # The host and the process are for people who read the database. The id is always a system id, even with a custom
        # issuer: two holders must never share it.
        holder = f"{platform.node()}-{os.getpid()}-{SystemIssuer().new_id('runner')}"
        lease = Lease(holder, self._process.lease_seconds)
        unknown = UnknownAgents(self._process.unknown_agent_seconds)
        jobs = JobWorker(self._services, self._sets, self._hooks, self._app, self.config.limits, self._process, lease)
        shadows = Shadows(self._services.experiments.store, self.shadow_counts)
        driver = Driver(self._services, self._sets, self._hooks, lease, unknown, jobs.wake, shadows)
        recovery = Recovery(self._services, self._sets, driver, self.config, unknown)
        queues = SessionQueues(
            driver,
            recovery,
            self._services.store,
            self.config,
            app=self._app,
            now=self._services.issuer.now,
            process=self._process,
            make_dispatcher=self._make_dispatcher,
        )
        store, rests = self._services.store, self._services.rests
        introduction = Introduction(store, self._sets, lease, self._app)
        seconds = self._process.recovery_seconds
        recovery_loop = RecoveryLoop(store, rests, queues, jobs, introduction, self._app, seconds, self.pruning)
        return LoopRuntime(driver, queues, recovery_loop, jobs)

    def _local_dispatcher(self, work_off: WorkOff) -> LocalDispatcher:
        return LocalDispatcher(work_off, self._services.issuer.now)
