"""Ends waits on time. The times are in the store, so waiting sessions need no memory."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from turnwise.facts.errors import TurnwiseError
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.dispatcher import Dispatcher
from turnwise.ports.stores import SessionStore

AT_MOST = 100
"""The number of sessions that are worked off at once."""
BATCH_SECONDS = 1.0
"""How long the next batch waits for sessions that began to answer a message meanwhile."""
EARLY = timedelta(milliseconds=50)
"""A timer may fire this much before its time, because clocks differ a little."""
RETRY_SECONDS = 5.0
"""How long after an error of the store a pass begins again."""

log = logging.getLogger("turnwise.runner")


class Expiries:
    """Has sessions worked off when their waits expire. For one event loop.

    An engine is asked to call each session at its time. Without one, this process has one timer, for the wait that expires
    next, and then reads from the store which sessions are due.

    Args:
        take_up: Starts to work a session off here.
        now: The clock of the waits.
    """

    def __init__(
        self,
        store: SessionStore,
        dispatcher: Dispatcher,
        take_up: "Callable[[SessionKey], asyncio.Task[None]]",
        app: str,
        now: Callable[[], datetime],
    ) -> None:
        self._store, self._dispatcher, self._take_up, self._app, self._now = store, dispatcher, take_up, app, now
        self._next: datetime | None = None
        """The time of the timer."""
        self._pass: asyncio.Task[set[SessionKey]] | None = None
        self._is_asked_again = False
        """True if another pass was requested during the one that runs."""
        self._retry: asyncio.TimerHandle | None = None

    def note(self, session: Session) -> None:
        """Has the session worked off when the next of its waits expires."""
        if (at := session.head.expires_at) is None:
            return
        if self._dispatcher.is_local:
            self._set_timer(session.key, at)
        else:
            self._dispatcher.call_at(session.key, at)

    def called(self) -> None:
        """Says that the dispatcher called for a session. Begins a pass if the timer may have fired."""
        if self._next is not None and self._now() >= self._next - EARLY:
            self._next = None
            self.begin()

    def begin(self) -> None:
        """Works off the expired sessions here in the background; if that is going on, once more after it."""
        if self._pass is not None:
            self._is_asked_again = True
            return
        self._is_asked_again = False
        self._pass = asyncio.create_task(self._run())
        self._pass.add_done_callback(self._on_pass_end)

    async def work_off(self) -> set[SessionKey]:
        """Works off the sessions with expired waits, here, and returns them. Raises the store's errors."""
        taken: set[SessionKey] = set()
        while new := set(await self.expired()) - taken:
            await asyncio.wait([self._take_up(key) for key in new], timeout=BATCH_SECONDS)
            taken |= new
        return taken

    async def expired(self) -> list[SessionKey]:
        """Returns some of the sessions with expired waits."""
        return list(await self._store.leases.expired(self._app, self._now(), limit=AT_MOST))

    async def close(self) -> None:
        """Ends the pass."""
        if self._retry is not None:
            self._retry.cancel()
        if self._pass is not None:
            self._pass.cancel()
            await asyncio.wait({self._pass})

    async def _run(self) -> set[SessionKey]:
        self._next = None
        taken = await self.work_off()
        if (found := await self._store.leases.next_expiry(self._app, self._now())) is not None:
            self._set_timer(*found)
        return taken

    def _set_timer(self, key: SessionKey, at: datetime) -> None:
        if self._next is None or at < self._next:
            self._next = at
            self._dispatcher.call_at(key, at)

    def _on_pass_end(self, task: "asyncio.Task[set[SessionKey]]") -> None:
        """Runs when a pass is over: begins the next one if asked for, tries again later after an error, and logs it."""
        self._pass = None
        if task.cancelled():
            return
        if self._is_asked_again:
            self.begin()
        elif task.exception() is not None:
            self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self.begin)
        if (problem := task.exception()) is not None:
            if not isinstance(problem, TurnwiseError):
                log.error("Expired waits were not ended.", exc_info=problem)
            else:
                log.debug("Expired waits were not ended: %s", problem.code)
