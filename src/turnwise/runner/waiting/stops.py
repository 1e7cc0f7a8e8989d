"""Hearing that another process wants something stopped that runs in this one."""

import asyncio
import logging
import weakref
from collections.abc import Callable, Sequence

from turnwise.facts.errors import TurnwiseError
from turnwise.ports.stores import SessionStore
from turnwise.runner.message.job import Job

LOOK_SECONDS = 0.25

log = logging.getLogger("turnwise.runner")


class Stops:
    """Looks for what is to be stopped, as long as something runs here. `running` gives that."""

    def __init__(self, store: SessionStore, holder: str, running: Callable[[], Sequence[Job]]) -> None:
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
