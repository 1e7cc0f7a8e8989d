"""Reads the session log for an agent's model, again at every step."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property

from turnwise.facts.content import Content
from turnwise.facts.events import Event
from turnwise.facts.fact import values_of
from turnwise.ports.context import AgentContext, History
from turnwise.transcript.compile import NO_NOTE, CompiledLog, Transcript, compiled_log
from turnwise.transcript.groups import Note
from turnwise.transcript.view import Budget, View, tokens_of_part

NEWS, PAGE = 10, 250
"""The page sizes in events: to read only new events, and the largest page."""
_SHORT_EVENT = 20
"""Tokens of a short event. The first page holds `budget / _SHORT_EVENT` events, since most events are longer."""

_MORE = 1.5
"""The factor by which more events are read before the next check whether they are enough."""

CACHE_BYTES = 64 * 2**20
"""The most memory, by estimate, that compiled transcripts take in one process."""


class TranscriptCache:
    """The compiled transcripts of a process, bounded by bytes. The least recently used are dropped.

    A log is taken out while it is used, because it changes then. It may be used from several threads.
    """

    def __init__(self, most_bytes: int = CACHE_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._logs: OrderedDict[Hashable, tuple[CompiledLog, int]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: Hashable) -> CompiledLog | None:
        """Removes and returns the log of that key; None when there is none."""
        with self._lock:
            log, size = self._logs.pop(key, (None, 0))
            self._bytes -= size
            return log

    def clear(self) -> None:
        with self._lock:
            self._logs.clear()
            self._bytes = 0

    def put(self, key: Hashable, log: CompiledLog) -> None:
        """Keeps the log, and drops the least recently used ones while there are too many bytes."""
        size = log.bytes
        with self._lock:
            self._bytes += size - self._logs.pop(key, (log, 0))[1]
            self._logs[key] = log, size
            while self._bytes > self._most_bytes:
                self._bytes -= self._logs.popitem(last=False)[1][1]


transcripts = TranscriptCache()
"""The compiled transcripts of this process."""


def view_of(context: AgentContext) -> View:
    """Returns the agent's run as the reader of a transcript."""
    blank = context.event()
    assignment = context.assignment
    scopes, giver = (assignment.scope.sees, assignment.giver) if assignment is not None else (None, None)
    return View(blank.author, blank.branch, blank.invocation_id, scopes, giver)


class TranscriptReader:
    """Compiles the log for one run of an agent. Reuses the transcript that earlier turns compiled in this process.

    Args:
        budget: How far the log is read.
        cache: The compiled logs; None means those of the process.
    """

    def __init__(self, context: AgentContext, budget: Budget, cache: TranscriptCache | None = None) -> None:
        self.view = view_of(context)
        self._history, self._budget = context.history, budget
        self._limit = context.config.limits.history_events
        self._cache = transcripts if cache is None else cache
        self._current: Sequence[Event] = ()
        self._seen: Event | None = None
        """The newest event that was read."""

    async def transcript(self, opening: Content, budget: Budget, *, calls_as_text: bool, note: Note = NO_NOTE) -> Transcript:
        """Returns the transcript up to the end of the log.

        Args:
            opening: The message that began the run.
            budget: The most that the transcript may hold; at most the reader's budget.
            note: Further text for the reader; see `CompiledLog.transcript`.
        """
        view = replace(self.view, calls_as_text=calls_as_text)
        key = self._history.identity, view.agent, view.scopes, calls_as_text
        log = self._cache.take(key)
        if log is None or not await self._extend(log, view):
            log = await self._read_all(view)
        transcript = log.transcript(self._current, view, opening, budget, limit=self._limit, note=note)
        # A later turn reads only what comes after the newest earlier event, so this invocation must begin after it.
        if log.last is not None and (not self._current or _sequence(log.last) < _sequence(self._current[0])):
            self._cache.put(key, log)
        return transcript

    async def _extend(self, log: CompiledLog, view: View) -> bool:
        """Reads the new events. Returns False if the log has to be read from nothing."""
        seen = self._seen or log.last
        if seen is None or log.last is None or _sequence(log.last) > _sequence(seen) or log.holds(view.invocation_id):
            return False
        new = await self._history.since(seen, transcript=True)
        if new is None or not log.extend([event for event in new if event.invocation_id != view.invocation_id]):
            return False
        self._current = [*self._current, *(event for event in new if event.invocation_id == view.invocation_id)]
        self._seen = new[-1] if new else seen
        return log.is_whole or log.reaches_far_enough(self._current, view, self._budget, limit=self._limit)

    async def _read_all(self, view: View) -> CompiledLog:
        window = await _read_backwards(self._history, view, self._budget, self._limit)
        log, self._current = window.compiled
        self._seen = window.events[-1] if window.events else None
        return log


class HistoryReader:
    """Reads the log backwards: first until the budget is filled, later only the new events."""

    def __init__(self, context: AgentContext, budget: Budget) -> None:
        self.view = view_of(context)
        self._history, self._budget = context.history, budget
        self._events: list[Event] = []

    async def events(self) -> Sequence[Event]:
        """Returns the events that may matter, oldest first, up to the end of the log."""
        if self._events:
            await self._read_new()
        else:
            self._events = (await _read_backwards(self._history, self.view, self._budget)).events
        return self._events

    async def _read_new(self) -> None:
        """Reads the events after the last known one."""
        last = _sequence(self._events[-1])
        new: list[Event] = []
        async for page in self._history.backwards(NEWS):
            new = [*(event for event in page if _sequence(event) > last), *new]
            if page and _sequence(page[0]) <= last:
                break
        self._events += new


class _Window:
    """The end of the log. It is compiled when that is needed."""

    def __init__(self, events: list[Event], view: View, *, is_whole: bool = False) -> None:
        self.events = events
        self._view, self._is_whole = view, is_whole

    @cached_property
    def compiled(self) -> tuple[CompiledLog, Sequence[Event]]:
        """The earlier invocations, and the events of this one."""
        log, current = compiled_log(self.events, self._view)
        log.is_whole = self._is_whole
        return log, current


async def _read_backwards(history: History, view: View, budget: Budget, limit: int | None = None) -> _Window:
    """Reads the log backwards until the budget is filled."""
    page_events = min(PAGE, budget.events + NEWS, max(NEWS, budget.tokens // _SHORT_EVENT))
    pages: list[Sequence[Event]] = []
    event_count, tokens, next_check, has_summary = 0, 0, 1, False
    async for page in history.backwards(page_events, transcript=True):
        pages.append(page)
        event_count += len(page)
        tokens += _tokens(page)
        has_summary = has_summary or any(event.actions.summary is not None for event in page)
        may_suffice = has_summary or tokens >= budget.tokens or event_count >= budget.events
        if event_count < next_check or not may_suffice:
            continue
        window = _Window(_in_order(pages), view)
        log, current = window.compiled
        if log.reaches_far_enough(current, view, budget, limit=limit):
            return window
        # Each check scans all events, so checks become rarer and the total cost stays linear.
        next_check = int(event_count * _MORE) + 1
    return _Window(_in_order(pages), view, is_whole=limit is None or event_count < limit)


def _tokens(page: Sequence[Event]) -> int:
    """Returns the most tokens that the page's content takes, without the marks around other agents' words.

    A budget that this does not fill is certainly not full.
    """
    contents = [content for event in page if (content := values_of(event)["content"]) is not None]
    return sum([tokens_of_part(part) for content in contents for part in values_of(content)["parts"]])


def _in_order(pages: Sequence[Sequence[Event]]) -> list[Event]:
    """Returns the events of pages read newest first, oldest first."""
    return [event for page in reversed(pages) for event in page]


def _sequence(event: Event) -> int:
    return event.sequence or 0
