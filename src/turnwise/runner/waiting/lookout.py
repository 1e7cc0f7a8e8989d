"""Waiting for a place in a full process, with an eye on what other processes do meanwhile."""

import asyncio

from turnwise.facts.errors import StoreError
from turnwise.facts.sessions import Session
from turnwise.ports.stores import SessionStore
from turnwise.runner.message.recovery import orphan_of
from turnwise.runner.waiting.gate import Gate
from turnwise.runner.waiting.lane import Lane
from turnwise.runner.waiting.line import Line

FIRST_LOOK_SECONDS = 0.05
"""Most places come sooner, and nothing is read for them."""
LOOKS_PER_SECOND = 100
"""How often all who wait at one gate look at the store, together; signals come besides."""


class Lookout:
    """Waits at gates for one lane. Messages of the lane that another process takes leave the line here, and follow it.

    holder: the name of this process on leases.
    """

    def __init__(self, store: SessionStore, lane: Lane, line: Line, holder: str) -> None:
        self._store, self._lane, self._line, self._holder = store, lane, line, holder

    async def enter(self, gate: Gate, *, first: bool = False, recovers: bool = False) -> bool:
        """Enters when it is one's turn: True. False, outside, as soon as there is nothing to do in the session here.

        first: somebody waits for it whose message is not stored. recovers: the session is also looked through for what a
        dead process left.
        """
        if gate.try_enter():
            return True
        place, stays = gate.line_up(), False
        try:
            while not place.done():
                await self._until_news(gate, place, first=first, recovers=recovers)
                if not place.done() and not (first or self._lane.waiting):
                    return False
            # What others left is not taken up any more once the process closes.
            stays = first or bool(self._lane.waiting) or not self._lane.closing
            return stays
        finally:
            if not stays:
                gate.give_up(place)

    async def _until_news(self, gate: Gate, place: "asyncio.Future[None]", *, first: bool, recovers: bool) -> None:
        """Returns when the place has come, or when there was nothing to do here at the last look."""
        looking = asyncio.create_task(self._look(gate, first=first, recovers=recovers))
        try:
            await asyncio.wait({place, looking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            looking.cancel()
        if not place.done():
            looking.result()

    async def _look(self, gate: Gate, *, first: bool, recovers: bool) -> None:
        signals, seen, pause = self._store.signals, (-1, 0), FIRST_LOOK_SECONDS
        with signals.watch(self._lane.key) as watch:
            while True:
                while await watch.next(max(pause, gate.waiting / LOOKS_PER_SECOND)) is not None:
                    continue
                pause = min(2 * pause, signals.poll_seconds)
                try:
                    session = await self._store.open(self._lane.key)
                    now = (session.revision, session.queued) if session else (-1, 0)
                    if now[0] != seen[0] or now[1] < seen[1] or session is None:
                        await self._line.send_on(self._lane)
                except StoreError:
                    # Whoever comes in hears of it, if it has not passed by then.
                    continue
                seen = now
                if not (first or self._lane.waiting or self._has_work(session, recovers=recovers)):
                    return

    def _has_work(self, session: Session | None, *, recovers: bool) -> bool:
        """Whether there is something to do for others: whoever holds the session does it, if anybody does."""
        if session is None or self._lane.closing or session.holder not in (None, self._holder):
            return False
        return session.queued > 0 or (recovers and orphan_of(session, self._holder) is not None)
