"""Which groups are shown: those of the run that goes on, then the newest, until the budget is used up (behaviour D9)."""

from itertools import pairwise
from typing import NamedTuple

from turnwise.facts.content import Content, TextPart, ThinkingPart
from turnwise.facts.events import USER, Summary
from turnwise.transcript.cutting import fitted
from turnwise.transcript.fences import note
from turnwise.transcript.groups import Group, group_at, group_of, handed
from turnwise.transcript.opening import giver, opening_place, run_begins
from turnwise.transcript.reading import Reading
from turnwise.transcript.sizes import tokens_of_part, tokens_of_parts
from turnwise.transcript.view import Budget, View

YOUR_TURN = TextPart(text=note("floor", "It is your turn."))
NOT_SHOWN = TextPart(text=note("start", "What came before is not shown."))
_RESERVED = tokens_of_parts((YOUR_TURN, NOT_SHOWN))
_LEAST = tokens_of_parts((TextPart(text="."),))
"""What the smallest group takes."""


class Chosen(NamedTuple):
    """What is shown: groups in order. summarized: the first of them is a summary. dropped: how many events did not fit.

    stop: the index in the reading's order of the newest event that does not fit, were there no summary; None when all do.
    full: nothing fits besides, whatever stands before them. covers: up to which sequence number a summary takes the place of
    events.
    """

    groups: list[Group]
    dropped: int
    stop: int | None
    full: bool
    covers: int | None = None
    summarized: bool = False


class _Must(NamedTuple):
    """What is shown whatever else fits, by the index in the order, and what room it leaves. opened: the opening that the log
    does not hold, and before which index it stands.
    """

    groups: dict[int, Group]
    opened: tuple[int, Group] | None
    room: Budget


def chosen(reading: Reading, view: View, budget: Budget, opening: Content | None) -> Chosen:
    """What fits. Without an opening, at least what fits with any."""
    must = _must(reading, view, budget, opening)
    choice = _newest(reading, view, must)
    made = _summary(reading, view, choice.stop)
    if made is None:
        return choice
    first = _summarized(made, must.room.tokens)
    room = must.room._replace(tokens=must.room.tokens - sum(group.tokens for group in first))
    newer = _newest(reading, view, must._replace(room=room), above=made.until)
    return choice._replace(groups=[*first, *newer.groups], dropped=newer.dropped, covers=made.until, summarized=bool(first))


def _must(reading: Reading, view: View, budget: Budget, opening: Content | None) -> _Must:
    """The opening, what the reader did in this run, and what the user said in this invocation; cut if it is too much."""
    opened = None if opening is None else opening_place(reading, view, opening)
    groups: dict[int, Group] = {}
    for index in range(reading.current, len(reading.order)):
        place = reading.order[index]
        event = reading.events[place]
        own = event.author == view.agent and event.branch == view.branch
        if own or event.author == USER or place == opened:
            groups[index] = group_at(place, reading, view)
    groups = {index: group for index, group in groups.items() if not group.is_empty}
    handed_over = None
    if opening is not None and opened is None:
        group = group_of((), handed(opening, giver(reading, view)))
        handed_over = (run_begins(reading, view), group)
    return _within(groups, handed_over, budget)


def _within(groups: dict[int, Group], opened: tuple[int, Group] | None, budget: Budget) -> _Must:
    every = [*([opened[1]] if opened else []), *groups.values()]
    taken, events = sum(group.tokens for group in every), sum(group.events for group in every)
    tokens = budget.tokens - _RESERVED - _breaks(list(groups.values())) * tokens_of_part(YOUR_TURN)
    if taken > tokens:
        cut_ = fitted(every, tokens)
        if opened:
            opened = (opened[0], cut_.pop(0))
        groups = dict(zip(groups, cut_, strict=True))
        taken = tokens
    return _Must(groups, opened, Budget(tokens - taken, budget.events - events))


def _breaks(groups: list[Group]) -> int:
    """How often a word of ours has to stand between two of the reader's: see `assembly`."""
    return sum(1 for before, group in pairwise(groups) if not before.heard and is_thought(group))


def is_thought(group: Group) -> bool:
    """Whether thinking is in it."""
    return any(isinstance(part, ThinkingPart) for part in group.said)


def _newest(reading: Reading, view: View, must: _Must, above: int = 0) -> Chosen:
    """What must be shown, and the newest besides, but nothing of other invocations up to sequence number `above`."""
    (tokens, events), kept, stop, dropped = must.room, dict(must.groups), None, 0
    for index in range(len(reading.order) - 1, -1, -1):
        if index in must.groups:
            continue
        event = reading.events[reading.order[index]]
        if index < reading.current and (event.sequence or above + 1) <= above:
            continue
        if stop is not None:
            dropped += 1
            continue
        group = group_at(reading.order[index], reading, view)
        if group.is_empty:
            continue
        if group.tokens > tokens or group.events > events:
            stop, dropped = index, 1
            continue
        kept[index] = group
        tokens, events = tokens - group.tokens, events - group.events
    ordered = sorted(kept.items())
    groups = [group for _, group in ordered]
    if must.opened is not None:
        at = sum(1 for index, _ in ordered if index < must.opened[0])
        groups.insert(at, must.opened[1])
    return Chosen(groups, dropped, stop, tokens < _LEAST or events < 1)


def _summary(reading: Reading, view: View, stop: int | None) -> Summary | None:
    """The reader's last summary; None when there is none, or what does not fit stands between it and what is shown.

    So what is shown depends on nothing that stands before it: a log can be read backwards until enough is there.
    """
    if reading.summarized is None:
        return None
    event = reading.events[reading.summarized]
    beyond = stop is not None and (stop >= reading.current or reading.summarized < reading.order[stop])
    return None if beyond and event.invocation_id != view.invocation_id else event.actions.summary


def _summarized(made: Summary, tokens: int) -> list[Group]:
    """The summary as a note that takes no more than that many tokens; nothing when it does not fit."""
    text = made.text.strip()
    if not text:
        return []
    whole = group_of((), [TextPart(text=note("summary", text))], events=0)
    shorter = fitted([whole], tokens)
    return shorter if shorter[0].tokens <= tokens else []
