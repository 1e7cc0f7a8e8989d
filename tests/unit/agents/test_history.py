"""How an LLM agent reads the log: what it costs."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from steps_play import steps

from turnwise.agents.history import HistoryReader, TranscriptCache
from turnwise.facts.content import text_content
from turnwise.facts.events import Actions, Branch, Event
from turnwise.facts.selections import Selection
from turnwise.transcript.compile import CompiledLog
from turnwise.transcript.view import Budget, View

EVERYTHING = Budget(tokens=10**9, events=10**6)


def event(number: int) -> Event:
    """Questions and answers in turn."""
    asks = number % 2 == 1
    return Event(
        id=f"e{number}",
        author="user" if asks else "clerk",
        invocation_id=f"i{(number + 1) // 2}",
        created_at=datetime.now(UTC),
        content=text_content(f"number {number}", "user" if asks else "agent"),
        actions=Actions(selection=Selection(agent="clerk", method="direct", confidence=1.0, reason="r")) if asks else Actions(),
        sequence=number,
    )


class Context:
    """A context whose log has that many events (an odd number: it ends with a question); it counts the pages read."""

    assignment = None

    def __init__(self, count: int) -> None:
        self.log = [event(number) for number in range(1, count + 1)]
        self.history, self.pages = self, 0

    def event(self) -> Event:
        return event(len(self.log) + 1).replace(author="clerk")

    async def backwards(self, page: int = 40, *, transcript: bool = False) -> AsyncIterator[list[Event]]:
        for end in range(len(self.log), 0, -page):
            self.pages += 1
            yield self.log[max(0, end - page) : end]


async def read(context: Any, budget: Budget) -> list[Event]:
    return list(await HistoryReader(context, budget).events())


def test_ten_times_the_history_is_ten_times_the_work() -> None:
    """J1: what was read is not looked at again for each page."""
    few, many = (steps(partial(asyncio.run, read(Context(count), EVERYTHING))) for count in (501, 5_001))
    assert many <= 14 * few


def test_what_a_budget_has_room_for_is_not_compiled_to_find_that_out() -> None:
    """J1: a look at what was read costs more than a hundred steps for each event; adding up its size, a few."""
    assert steps(partial(asyncio.run, read(Context(1_001), EVERYTHING))) < 50 * 1_001


async def test_what_fills_a_budget_is_found_at_once() -> None:
    """Whether by tokens or by events."""
    for budget in (Budget(tokens=2_000, events=10**6), Budget(tokens=10**9, events=100)):
        context = Context(20_001)
        await read(context, budget)
        assert context.pages <= 8


async def test_a_whole_history_is_read_in_order() -> None:
    for count in (1, 39, 41, 131, 1_001):
        assert [each.sequence for each in await read(Context(count), EVERYTHING)] == list(range(1, count + 1))


async def test_no_more_is_read_than_a_small_budget_needs() -> None:
    """Its cost does not grow with the log."""
    small = Budget(tokens=200, events=20)
    one, other = Context(201), Context(20_001)
    await read(one, small)
    await read(other, small)
    assert one.pages == other.pages <= 10


def compiled(count: int) -> CompiledLog:
    log = CompiledLog(View("clerk", Branch("1"), "now"))
    assert log.extend([event(number) for number in range(1, count + 1)])
    return log


def test_the_least_recently_used_transcripts_are_dropped_when_there_are_too_many_bytes() -> None:
    logs = {name: compiled(20) for name in "abc"}
    cache = TranscriptCache(most_bytes=2 * logs["a"].bytes)
    cache.put("a", logs["a"])
    cache.put("b", logs["b"])
    cache.put("a", cache.take("a") or compiled(1))
    cache.put("c", logs["c"])
    assert [cache.take(name) for name in "abc"] == [logs["a"], None, logs["c"]]


def test_a_transcript_that_has_grown_counts_with_its_new_size() -> None:
    small, large = compiled(20), compiled(20)
    cache = TranscriptCache(most_bytes=3 * small.bytes)
    cache.put("small", small)
    cache.put("large", large)
    taken = cache.take("large")
    assert taken is large
    large.extend([event(number) for number in range(21, 81)])
    cache.put("large", large)
    assert [cache.take("small"), cache.take("large")] == [None, None]  # alone, it is too large
    cache.put("small", small)
    assert cache.take("small") is small


def test_a_transcript_is_used_by_one_reader_at_a_time() -> None:
    cache, log = TranscriptCache(), compiled(4)
    cache.put("a", log)
    assert [cache.take("a"), cache.take("a")] == [log, None]
    cache.put("a", log)
    cache.clear()
    assert cache.take("a") is None
