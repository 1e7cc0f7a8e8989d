"""The visible parts of a session's log: ranges of events in its own log and, in a fork, in the logs of other sessions. Pure."""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

FOREVER = 2**62
"""The end of an open span: all events from its first one on."""
READ_ACROSS = 64
"""A reader skips a gap of at most this many events instead of starting another query."""


class Span(NamedTuple):
    """The events of one log from `first` to `last`, both included. They have the same numbers in every session."""

    log: int
    """The number of the session that wrote them."""
    first: int
    last: int = FOREVER
    folded: bool = True
    """False if the log's snapshots do not fit, because a fork left out earlier events."""


Spans = tuple[Span, ...]
"""Spans in the order of their numbers, without overlap. The last one is open: the session appends to it."""


def whole(log: int) -> Spans:
    """Returns the spans of a session without rewinds that is not a fork."""
    return (Span(log, 1),)


def spans_text(spans: Spans, log: int) -> str | None:
    """Returns the spans as stored with the session `log`; None for its whole own log."""
    return None if spans == whole(log) else json.dumps(spans, separators=(",", ":"))


def spans_of(text: str | None, log: int) -> Spans:
    """Returns the spans that `spans_text` stored."""
    return whole(log) if text is None else tuple(Span(*span) for span in json.loads(text))


def without(spans: Spans, first: int, last: int) -> Spans:
    """Returns the spans without the numbers from `first` to `last`, both included. This is what a rewind hides."""
    if last < first:
        return spans
    parts: list[Span] = []
    for span in spans:
        if span.last < first or span.first > last:
            parts.append(span)
            continue
        if span.first < first:
            parts.append(span._replace(last=first - 1))
        if span.last > last:
            parts.append(span._replace(first=last + 1))
    return tuple(parts)


def fork_of(spans: Spans, end: int, excluded: Iterable[int], log: int) -> Spans:
    """Returns the spans of a fork.

    Args:
        spans: The visible parts of the forked session's log.
        end: The number of the first event that is not inherited.
        excluded: The numbers of events that are left out.
        log: The number of the fork.
    """
    inherited = without(spans, end, FOREVER)
    left_out = sorted(number for number in excluded if number < end)
    for number in left_out:
        inherited = without(inherited, number, number)
    if left_out:
        inherited = tuple(span._replace(folded=span.folded and span.last < left_out[0]) for span in inherited)
    # The fork's own events follow the last inherited one, also when the last events before `end` are left out.
    return (*inherited, Span(log, inherited[-1].last + 1 if inherited else 1))


def all_of(spans: Spans, log: int) -> Spans:
    """Returns the spans with what rewinds hid in the session's own log."""
    return (*(span for span in spans if span.log != log), Span(log, 1))


def gaps(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the numbers from 1 on that are in none of the ranges, as ranges. `ranges` are in order and may overlap."""
    found, start = list[tuple[int, int]](), 1
    for first, last in ranges:
        if first > start:
            found.append((start, first - 1))
        start = max(start, last + 1)
    return [*found, (start, FOREVER)] if start <= FOREVER else found


def logs_of(spans: Iterable[Span]) -> frozenset[int]:
    """Returns the numbers of the logs."""
    return frozenset(span.log for span in spans)


def log_at(spans: Spans, sequence: int) -> int | None:
    """Returns the log of the event with that number; None when no span has it."""
    return next((span.log for span in spans if span.first <= sequence <= span.last), None)


def is_visible(spans: Spans, log: int, sequence: int) -> bool:
    """Returns whether a span contains the event of that log."""
    return any(span.log == log and span.first <= sequence <= span.last for span in spans)


class Run(NamedTuple):
    """Neighbouring spans of one log that one query reads."""

    log: int
    first: int
    last: int
    hidden: tuple[tuple[int, int], ...] = ()
    """The gaps between the spans, as first and last numbers."""

    @property
    def hidden_count(self) -> int:
        return sum(last - first + 1 for first, last in self.hidden)

    def shows(self, sequence: int) -> bool:
        return not any(first <= sequence <= last for first, last in self.hidden)


def runs(spans: Spans, after: int, before: int) -> Sequence[Run]:
    """Returns the queries that read the spans between two numbers, in order; neither number is included."""
    joined: list[Run] = []
    for log, first, last, _ in spans:
        first, last = max(first, after + 1), min(last, before - 1)  # noqa: PLW2901
        if first > last:
            continue
        run = joined[-1] if joined else None
        if run is not None and run.log == log and first - run.last - 1 <= READ_ACROSS:
            gap = ((run.last + 1, first - 1),) if first > run.last + 1 else ()
            joined[-1] = run._replace(last=last, hidden=run.hidden + gap)
        else:
            joined.append(Run(log, first, last))
    return joined
