"""The recovery loop: announces sessions that no process holds although they have work, and runs background jobs."""

import asyncio
import itertools
import logging
import random
from collections.abc import Callable, Iterable

from turnwise.facts.errors import TurnwiseError
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import SessionStore
from turnwise.runner.agent_sets import Introduction
from turnwise.runner.queue.job_worker import JobWorker
from turnwise.runner.queue.queues import SessionQueues
from turnwise.runner.queue.retention import Pruning
from turnwise.runner.rests import AgentRests

AT_MOST = 100
"""The number of sessions that one round takes up."""
UPKEEP_ROUNDS = 30
"""Deletions that a process left unfinished are continued once in this many rounds."""
PATIENCE_SECONDS = 1.0
"""How long a session that is due is left to the engine. After that, a process with room takes it up itself."""
REPEAT_SECONDS = 5.0
"""How long a session is due before a process that cannot take it up announces it again, and the pause before the next time."""

log = logging.getLogger("turnwise.runner")


class RecoveryLoop:
    """Recovers abandoned sessions and background jobs."""

    def __init__(
        self,
        store: SessionStore,
        rests: AgentRests,
        queues: SessionQueues,
        jobs: JobWorker,
        introduction: Introduction,
        app: str,
        seconds: float,
        pruning: Pruning | None = None,
    ) -> None:
        self._store, self._rests, self._queues, self._jobs, self._app, self._seconds = store, rests, queues, jobs, app, seconds
        self._introduction, self._pruning = introduction, pruning
        self._due = DueSessions(asyncio.get_running_loop().time)

    async def once(self) -> int:
        """Recovers all due sessions here, then runs the jobs. Returns the number of sessions when all of it is done.

        Raises the store's errors.
        """
        taken: set[SessionKey] = set()
        while new := set(await self._store.leases.due(self._app, limit=AT_MOST)) - taken:
            await asyncio.wait([self._queues.take_up(key) for key in new])
            taken |= new
        taken |= await self._queues.expiries.work_off()
        await self._store.maintenance.finish_deletions()
        return len(taken | await self._jobs.work_off())

    async def forever(self) -> None:
        """Serves the dispatcher, and announces due sessions in a loop, until it is cancelled.

        Store errors do not end the loop, since they may pass. Logs the first error of a series, and its end. Raises
        EngineError when the engine cannot be used at all.
        """
        tasks = {asyncio.create_task(self._queues.dispatcher.serve()), asyncio.create_task(self._rounds())}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _rounds(self) -> None:
        """Runs rounds until cancelled. In some of them, finishes deletions and prunes. Logs a series of errors once."""
        failing: str | None = None
        for round_ in itertools.count():
            try:
                await self._round()
                if round_ % UPKEEP_ROUNDS == 0:
                    await self._store.maintenance.finish_deletions()
                if self._pruning is not None:
                    await self._pruning.step_when_due()
                if failing is not None:
                    log.info("The store can be read again; recovery goes on.")
                failing = None
            except TurnwiseError as problem:
                if failing != problem.code:
                    log.warning("The sessions to recover cannot be read: %s", problem)
                failing = problem.code
            except Exception as problem:
                if failing != type(problem).__name__:
                    log.exception("The sessions to recover cannot be read.")
                failing = type(problem).__name__
            # Jitter, so that processes do not run in step.
            await asyncio.sleep(self._seconds * random.uniform(0.8, 1.2))

    async def _round(self) -> None:
        """Claims jobs, reads the agents' rests, and takes up or announces sessions that have work and no living holder."""
        dispatcher = self._queues.dispatcher
        if dispatcher.works_here:
            await self._introduction.refresh()
            await self._jobs.claim()
        await self._rests.refresh()
        if dispatcher.is_local and not self._queues.has_room:
            return
        keys = list(await self._store.leases.due(self._app, limit=AT_MOST))
        random.shuffle(keys)
        if dispatcher.is_local:
            self._queues.expiries.begin()
            await self._take_up(keys)
            return
        expired = await self._queues.expiries.expired()
        self._due.note([*keys, *expired], is_cut=AT_MOST in (len(keys), len(expired)))
        if dispatcher.works_here:
            await self._take_up(self._due.overdue())
            if self._queues.has_room:
                return
        for key in self._due.to_announce():
            dispatcher.announce(key, 0)

    async def _take_up(self, keys: Iterable[SessionKey]) -> None:
        for key in keys:
            if self._queues.has_room:
                self._queues.take_up(key)
                # Lets it take its slot before the next check.
                await asyncio.sleep(0)


class DueSessions:
    """Remembers since when sessions are due, and when they were announced to the engine."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[SessionKey, float] = {}
        self._announced: dict[SessionKey, float] = {}
        self._is_cut = False

    def note(self, keys: Iterable[SessionKey], *, is_cut: bool = False) -> None:
        """Notes the sessions that are due now; the others are not due any more.

        Args:
            keys: The sessions.
            is_cut: Whether there are more. Each round reads others of them, so nobody knows since when they are due.
        """
        now, self._is_cut = self._clock(), is_cut
        self._since = {key: self._since.get(key, now) for key in keys}
        self._announced = {key: at for key, at in self._announced.items() if now - at < REPEAT_SECONDS}

    def to_announce(self) -> list[SessionKey]:
        """Returns sessions that have been due for so long that their announcement may be lost, and notes them as announced.

        Each is returned once in `REPEAT_SECONDS`. If the list of due sessions was cut, every session counts as due so long.
        """
        found = [key for key in self._overdue_for(REPEAT_SECONDS) if key not in self._announced]
        self._announced |= dict.fromkeys(found, self._clock())
        return found

    def overdue(self) -> list[SessionKey]:
        """Returns the sessions for which the engine had enough time; all of them if the list was cut."""
        return self._overdue_for(PATIENCE_SECONDS)

    def _overdue_for(self, seconds: float) -> list[SessionKey]:
        now = self._clock()
        return [key for key, since in self._since.items() if self._is_cut or now - since >= seconds]
