"""The local dispatcher: this process works on the sessions that it announces."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from turnwise.facts.sessions import SessionKey
from turnwise.ports.dispatcher import WorkOff

TIMERS = 1_000
"""The number of timers that a process keeps. The runner needs one at a time."""

log = logging.getLogger("turnwise.dispatch")


def _now() -> datetime:
    return datetime.now(UTC)


class LocalDispatcher:
    """Passes announced sessions to this process at once. Processes share sessions by lease, inbox and epoch alone: a process
    that finds the work of a dead one announces it.

    Args:
        work_off: Works a session off.
        now: The clock of `call_at`.
    """

    is_local = True
    works_here = True

    def __init__(self, work_off: WorkOff, now: Callable[[], datetime] = _now) -> None:
        self._work_off, self._now = work_off, now
        self._working: set[asyncio.Future[None]] = set()
        self._timers: dict[tuple[SessionKey, datetime], asyncio.TimerHandle] = {}

    def announce(self, key: SessionKey, number: int) -> None:
        """Begins the work before this returns."""
        working = asyncio.ensure_future(self._work_off(key, number))
        self._working.add(working)
        working.add_done_callback(self._end)

    def call_at(self, key: SessionKey, at: datetime) -> None:
        """Sets a timer of this process, which ends with it."""
        if (key, at) in self._timers or len(self._timers) >= TIMERS:
            return
        seconds = max(0.0, (at - self._now()).total_seconds())
        self._timers[key, at] = asyncio.get_running_loop().call_later(seconds, self._wake, key, at)

    async def serve(self) -> None:
        """Returns at once, because nobody else calls this process."""

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _end(self, working: "asyncio.Future[None]") -> None:
        self._working.discard(working)
        if not working.cancelled() and (problem := working.exception()):
            log.warning("A session was not worked off: %s: %s", type(problem).__name__, problem)

    def _wake(self, key: SessionKey, at: datetime) -> None:
        del self._timers[key, at]
        self.announce(key, 0)
