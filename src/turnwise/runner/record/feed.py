"""Where an invocation's events can be read while it runs, by any number of readers, none of whom can slow it."""

import asyncio
from collections.abc import AsyncIterator

from turnwise.facts.events import Event
from turnwise.runner.record.journal import public_event


class EventFeed:
    """Events in the order they were published, as the public may read them: stored ones, and between them the partial ones,
    which only the live see. A partial one is kept until the whole is there, however far behind a reader is.
    """

    def __init__(self) -> None:
        self._events: list[Event | None] = []
        self._final_ids: set[str] = set()
        self._partial_indices: dict[str, list[int]] = {}
        """The places of the partial events, by the id that they share with the whole."""
        self._waiters: list[asyncio.Future[None]] = []
        self._closed = False
        self._problem: BaseException | None = None

    @property
    def stored(self) -> list[Event]:
        """The stored events so far."""
        return [event for event in self._events if event is not None and not event.partial]

    @property
    def is_closed(self) -> bool:
        return self._closed

    def publish(self, event: Event) -> None:
        if not event.partial:
            for place in self._partial_indices.pop(event.id, ()):
                self._events[place] = None
            self._final_ids.add(event.id)
        elif event.id in self._final_ids:
            return  # the whole is there already
        else:
            self._partial_indices.setdefault(event.id, []).append(len(self._events))
        self._events.append(public_event(event))
        self._wake()

    def close(self, problem: BaseException | None = None) -> None:
        """No more events. Readers get what there is, then the end, or the problem raised."""
        if not self._closed:
            self._closed, self._problem = True, problem
            self._wake()

    async def closed(self) -> None:
        """Returns when the feed is closed; raises its problem."""
        while not self._closed:
            await self._change()
        if self._problem:
            raise self._problem

    async def read(self, after: int = 0) -> AsyncIterator[Event]:
        """Every event from the first, stored ones only above sequence number `after`; ends when the feed is closed.

        Partials whose final event is there already are left out. Raises the problem the feed was closed with.
        """
        at = 0
        while True:
            while at < len(self._events):
                event = self._events[at]
                at += 1
                if event is not None and (event.partial or (event.sequence or 0) > after):
                    yield event
            if self._closed:
                break
            await self._change()
        if self._problem:
            raise self._problem

    async def _change(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
