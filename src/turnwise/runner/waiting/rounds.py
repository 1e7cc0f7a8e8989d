"""Looking for what other processes left behind, now and then."""

import asyncio
import logging
import random

from turnwise.facts.errors import TurnwiseError
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import SessionStore
from turnwise.runner.waiting.job_worker import JobWorker
from turnwise.runner.waiting.lanes import Lanes

AT_MOST = 100
"""How many sessions are taken up in one round."""

log = logging.getLogger("turnwise.runner")


class Rounds:
    """Takes up sessions that nobody holds although something is to be done there, and background jobs."""

    def __init__(self, store: SessionStore, lanes: Lanes, jobs: JobWorker, app: str, seconds: float) -> None:
        self._store, self._lanes, self._jobs, self._app, self._seconds = store, lanes, jobs, app, seconds

    async def once(self) -> int:
        """Takes up all that are due, then the jobs; returns in how many sessions, when they are worked off.

        Raises what the store raises.
        """
        taken: set[SessionKey] = set()
        while new := set(await self._store.leases.due(self._app, limit=AT_MOST)) - taken:
            await asyncio.wait([self._lanes.take_up(key) for key in new])
            taken |= new
        return len(taken | await self._jobs.work_off())

    async def forever(self) -> None:
        """Takes up due sessions again and again while this process has room for them, until it is cancelled.

        No error of the store ends it: a refused login, a read-only server or a lost connection may pass. The first error of
        a series is logged, and so is its end.
        """
        failing: str | None = None
        while True:
            try:
                await self._round()
                if failing is not None:
                    log.info("The store can be read again; recovery goes on.")
                failing = None
            except TurnwiseError as problem:
                if failing != problem.code:
                    log.warning("What is left to do cannot be read: %s", problem)
                failing = problem.code
            except Exception as problem:
                if failing != type(problem).__name__:
                    log.exception("What is left to do cannot be read.")
                failing = type(problem).__name__
            # Not all processes at the same moment.
            await asyncio.sleep(self._seconds * random.uniform(0.8, 1.2))

    async def _round(self) -> None:
        await self._jobs.claim()
        if not self._lanes.has_room:
            return
        keys = list(await self._store.leases.due(self._app, limit=AT_MOST))
        random.shuffle(keys)
        for key in keys:
            if self._lanes.has_room:
                self._lanes.take_up(key)
                # Lets it enter before the next is looked at.
                await asyncio.sleep(0)
