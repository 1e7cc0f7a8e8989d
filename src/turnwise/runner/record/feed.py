"""The live feed of one invocation's events, for any number of readers. A slow reader does not slow the run."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import pairwise

from turnwise.facts.content import Content, Part, TextPart, ThinkingPart, ToolCallPart
from turnwise.facts.events import Event
from turnwise.runner.record.journal import public_event

_KEPT_APART = 256
"""How many of the newest pieces of a message, at least, are not put together. The older ones are: very many small events would
slow the interpreter's garbage collector down."""


class _Pieces:
    """The indices of a message's partial events. The first `merged` of them stand for many pieces each."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self.merged = 0


class EventFeed:
    """Public events in the order they were published: stored events, and partial events in between.

    A partial event is kept until its final event arrives, even for slow readers. When a message has very many pieces, the older
    ones are joined, unless a reader is among them.
    """

    def __init__(self) -> None:
        self._events: list[Event | None] = []
        self._final_ids: set[str] = set()
        self._pieces: dict[str, _Pieces] = {}
        """Partial events, by the id that they share with the final event."""
        self._waiters: list[asyncio.Future[None]] = []
        self._readers: dict[object, int] = {}
        """How many events each reader has taken, as of its last pause."""
        self._positions: dict[object, int] = {}
        """The index of the next event of each reader."""
        self._was_read = False
        """Whether there was a reader."""
        self._takers = 0
        """How many callers wait for all events."""
        self._taken = asyncio.Event()
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
        """Appends an event and wakes the readers. A final event removes its partial events."""
        if not event.partial:
            pieces = self._pieces.pop(event.id, None)
            for place in pieces.places if pieces is not None else ():
                self._events[place] = None
            self._final_ids.add(event.id)
        elif event.id in self._final_ids:
            return  # the final event was already published
        else:
            pieces = self._pieces.setdefault(event.id, _Pieces())
            pieces.places.append(len(self._events))
            if len(pieces.places) - pieces.merged == 2 * _KEPT_APART:
                self._merge(pieces)
        self._events.append(public_event(event))
        self._wake()

    def _merge(self, pieces: _Pieces) -> None:
        """Puts the older pieces together. Those among which a reader is stay as they are."""
        block = pieces.places[pieces.merged : pieces.merged + _KEPT_APART]
        if any(block[0] < at <= block[-1] for at in self._positions.values()):
            pieces.merged += len(block)
            return
        events = [event for place in block if (event := self._events[place]) is not None]
        runs = [(block[number], event) for number, event in _merged_runs(events)]
        for place in block:
            self._events[place] = None
        for place, event in runs:
            self._events[place] = event
        pieces.places[pieces.merged : pieces.merged + len(block)] = [place for place, _ in runs]
        pieces.merged += len(runs)

    def close(self, problem: BaseException | None = None) -> None:
        """Ends the feed. Readers get the remaining events, then the end or the problem."""
        if not self._closed:
            self._closed, self._problem = True, problem
            self._taken.set()
            self._wake()

    async def wanted(self, seconds: float | None = None) -> bool:
        """Waits until a reader has taken all events. Returns at once if nobody has read, or a caller waits for all events.

        Args:
            seconds: How long to wait for a new reader when all readers have gone; None means any time.

        Returns:
            True if events are wanted; False if no new reader came.
        """
        while not self._closed and not self._is_wanted():
            self._taken.clear()
            try:
                async with asyncio.timeout(None if self._readers else seconds):
                    await self._taken.wait()
            except TimeoutError:
                return False
        return True

    def _is_wanted(self) -> bool:
        if self._takers > 0 or not self._was_read:
            return True
        return any(place >= len(self._events) for place in self._readers.values())

    async def complete(self) -> None:
        """Waits until the feed is closed, as `closed` does, for a caller that needs all events."""
        self._takers += 1
        self._taken.set()
        try:
            await self.closed()
        finally:
            self._takers -= 1

    async def closed(self) -> None:
        """Waits until the feed is closed. Raises its problem."""
        while not self._closed:
            await self._change()
        if self._problem:
            raise self._problem

    async def read(self, after: int = 0) -> AsyncIterator[Event]:
        """Yields every event from the first; ends when the feed is closed, and raises the problem it was closed with.

        Skips partial events after the arrival of their final event.

        Args:
            after: Yield only stored events with a higher sequence number. Partial events are not filtered.
        """
        at, reader = 0, object()
        self._readers[reader], self._positions[reader], self._was_read = 0, 0, True
        self._taken.set()
        try:
            while True:
                while at < len(self._events):
                    event = self._events[at]
                    at += 1
                    self._positions[reader] = at
                    if event is not None and (event.partial or (event.sequence or 0) > after):
                        yield event
                self._readers[reader] = at
                self._taken.set()
                if self._closed:
                    break
                await self._change()
        finally:
            del self._readers[reader], self._positions[reader]
            self._taken.set()
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


def _merged_runs(events: Sequence[Event]) -> Iterator[tuple[int, Event]]:
    """Yields each run of pieces that continue each other as one piece, with the index of its first.

    Args:
        events: Partial events of one message, in order.
    """
    ends = [number + 1 for number, pair in enumerate(pairwise(events)) if not _continues(*pair)]
    start = 0
    for end in (*ends, len(events)):
        yield start, _joined(events[start:end])
        start = end


def _continues(before: Event, after: Event) -> bool:
    """Returns whether a piece goes on where the one before ends: same attempt, scope, part type and call."""
    first, second = _only_part(before), _only_part(after)
    if first is None or type(first) is not type(second) or (before.attempt, before.scope) != (after.attempt, after.scope):
        return False
    if isinstance(first, TextPart) and before.offset is not None:
        return after.offset == before.offset + len(first.text)
    same_call = not isinstance(first, ToolCallPart) or first.call_id == getattr(second, "call_id", None)
    return same_call and before.offset == after.offset


def _only_part(event: Event) -> Part | None:
    """Returns the part of a piece that may be joined with others."""
    parts = event.content.parts if event.content is not None else ()
    part = parts[0] if len(parts) == 1 else None
    if isinstance(part, TextPart | ThinkingPart) and part.seal is None:
        return part
    return part if isinstance(part, ToolCallPart) and part.raw is not None and not part.arguments else None


def _joined(events: Sequence[Event]) -> Event:
    """Returns the pieces as one piece with their joined text or arguments."""
    first = events[0]
    if len(events) == 1:
        return first
    part, parts = _only_part(first), [_only_part(event) for event in events]
    if isinstance(part, ToolCallPart):
        joined: Part = part.replace(raw="".join(each.raw or "" for each in parts if isinstance(each, ToolCallPart)))
    else:
        assert isinstance(part, TextPart | ThinkingPart)
        joined = part.replace(text="".join(each.text for each in parts if isinstance(each, TextPart | ThinkingPart)))
    assert first.content is not None
    return first.replace(content=Content(role=first.content.role, parts=(joined,)))
