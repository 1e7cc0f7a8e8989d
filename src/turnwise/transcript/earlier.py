"""Earlier invocations as one agent sees them, compiled once and extended with what is new."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from turnwise.facts.content import BlobPart, Part, TextPart
from turnwise.facts.events import USER, Branch, Event, Summary
from turnwise.facts.fact import values_of
from turnwise.transcript.groups import NOTHING, Group, group_at, plain_groups
from turnwise.transcript.view import View, VisibleLog, as_text, begins_invocation, not_rewound, visible_log

KEPT = 0.75
"""The share of the room that a transcript uses after a cut. The rest lets it grow, so that most turns need no new cut."""
_GROUP_BYTES = 1_500
"""An estimate of a group's memory besides its text."""
FORGET_FROM = 512
"""Groups are only forgotten in blocks of at least this many, so that the cost per turn stays constant."""


class Places(NamedTuple):
    """The positions of events in the log, oldest first."""

    sequences: Sequence[int] = ()
    invocations: Sequence[str] = ()
    """The invocation of each event."""


class MadeSummary(NamedTuple):
    """A summary and the event that holds it."""

    sequence: int
    """The sequence number of the event."""
    summary: Summary


class Cut(NamedTuple):
    """The earlier groups that a transcript shows: those from index `first` on."""

    first: int
    fits: int
    """The index of the oldest group that would fit. Nothing before it can matter."""


class EarlierLog:
    """The groups of invocations that do not run, in append order.

    An event's group depends on no other invocation. New invocations only add groups. `extend` refuses events that
    would change a compiled group; the log must then be compiled from nothing.
    """

    def __init__(self, view: View) -> None:
        # No event has an empty invocation id, so to this view all invocations are earlier ones.
        self._view = replace(view, branch=Branch(), invocation_id="", giver=None)
        self.groups: list[Group] = []
        self.last: Event | None = None
        """The newest event."""
        self.summary: MadeSummary | None = None
        self.dangling = 0
        """The sequence number of the newest event that depends on an event before all of these; 0 when there is none."""
        self.bytes = 0
        """The estimated memory."""
        self._notes: list[tuple[int, Part]] = []
        """The notes on the reader's situation, with the sequence number of their groups."""
        self._invocations: set[str] = set()
        self._all_sequences: list[int] = []  # of all events, also those without a group
        self._all_invocations: list[str] = []
        self._sequences: list[int] = []  # of the groups
        self._starts: list[int] = []  # the sequence numbers of groups that begin an invocation
        self._tokens, self._events = [0], [0]  # sums over the groups, each one longer than `groups`

    def extend(self, events: Sequence[Event]) -> bool:
        """Adds events, oldest first. Returns False, and adds nothing, if they would change a compiled group."""
        values = list(map(values_of, events))
        last, invocations = self._last_sequence, [each["invocation_id"] for each in values]
        if not self._invocations.isdisjoint(invocations):
            return False
        actions = {id(each["actions"]): each["actions"] for each in values}.values()  # many events share their actions
        rewinds = [each.rewind for each in actions if each.rewind is not None]
        if any(rewind.from_sequence <= last for rewind in rewinds):
            return False
        kept = events
        if rewinds or any([each["partial"] for each in values]):  # noqa: C419 - a list is faster here
            kept = not_rewound(events)
            values = list(map(values_of, kept))
            invocations = [each["invocation_id"] for each in values]
        if kept:
            self._all_sequences += [each["sequence"] or 0 for each in values]
            self._all_invocations += invocations
            self._invocations.update(invocations)
            self.last = kept[-1]
            self.bytes += 200 * len(kept)
            self._add(kept, self._groups_of(kept, invocations))
        return True

    def _groups_of(self, events: Sequence[Event], invocations: Sequence[str]) -> Sequence[Group]:
        """Returns the group of each event. Of invocations with plain texts alone, nothing else has to be looked at."""
        plain = plain_groups(events, self._view)
        groups = [NOTHING if group is None else group for group in plain]
        others = {invocation for invocation, group in zip(invocations, plain, strict=True) if group is None}
        if not others:
            return groups
        places = [place for place, invocation in enumerate(invocations) if invocation in others]
        reading = visible_log([events[place] for place in places], self._view)
        place_of = {id(events[place]): place for place in places}
        for place in places:
            groups[place] = NOTHING
        for index in reading.order:
            place = place_of[id(reading.events[index])]
            groups[place] = plain[place] or group_at(index, reading, self._view)
        self._note_dependencies(reading)
        return groups

    def _note_dependencies(self, reading: VisibleLog) -> None:
        """Notes the newest summary, and the newest event that depends on one before all of these."""
        if reading.summarized is not None:
            made = reading.events[reading.summarized]
            assert made.actions.summary is not None
            self.summary = MadeSummary(made.sequence or 0, made.actions.summary)
        if reading.dangling is not None:
            self.dangling = reading.events[reading.dangling].sequence or 0

    def _add(self, events: Sequence[Event], groups: Sequence[Group]) -> None:
        """Adds the events' groups with their counts. Empty groups are left out."""
        if not all([group.said or group.heard for group in groups]):  # noqa: C419 - a list is faster here
            shown = [place for place, group in enumerate(groups) if not group.is_empty]
            events, groups = [events[place] for place in shown], [groups[place] for place in shown]
        sequences = [values_of(event)["sequence"] or 0 for event in events]
        self.groups += groups
        self._sequences += sequences
        self._tokens += accumulate([group.tokens for group in groups], initial=self._tokens.pop())
        self._events += accumulate([group.events for group in groups], initial=self._events.pop())
        self.bytes += sum([bytes_of(group) for group in groups])
        users = [event for event in events if values_of(event)["author"] == USER]
        self._starts += [event.sequence or 0 for event in users if begins_invocation(event)]
        told = [(sequence, group.told) for sequence, group in zip(sequences, groups, strict=True) if group.told]
        self._notes += [(sequence, part) for sequence, parts in told for part in parts]

    @property
    def _last_sequence(self) -> int:
        return 0 if self.last is None else self.last.sequence or 0

    def holds_invocation(self, invocation_id: str) -> bool:
        return invocation_id in self._invocations

    def sequence(self, index: int) -> int:
        """Returns the sequence number of the group at that index."""
        return self._sequences[index]

    @property
    def has_notes(self) -> bool:
        return bool(self._notes)

    def last_note(self, first: int) -> Part | None:
        """Returns the newest note among the groups from index `first` on; None when there is none."""
        if not self._notes or first >= len(self.groups) or self._notes[-1][0] < self._sequences[first]:
            return None
        return self._notes[-1][1]

    def after(self, sequence: int) -> int:
        """Returns the index of the first group with a higher sequence number."""
        return bisect_right(self._sequences, sequence)

    @property
    def count(self) -> int:
        """The number of events, including those without a group."""
        return len(self._all_sequences)

    @property
    def first_sequence(self) -> int | None:
        """The sequence number of the oldest event; None when there is none."""
        return self._all_sequences[0] if self._all_sequences else None

    def newest(self, count: int, *, above: int) -> Places:
        """Returns the places of the newest `count` events with higher sequence numbers."""
        first = max(bisect_right(self._all_sequences, above), self.count - count)
        return Places(self._all_sequences[first:], self._all_invocations[first:])

    def within(self, count: int) -> int:
        """Returns the index of the first group among the newest `count` events."""
        if count >= self.count:
            return 0
        return len(self.groups) if count <= 0 else self.after(self._all_sequences[-count] - 1)

    def cut(self, tokens: int, events: int, *, lowest: int, is_limited: bool) -> Cut:
        """Returns which groups to show, at most those from index `lowest` on.

        All are shown if they fit. Otherwise at most the room is used, and about `KEPT` of it at least. Between these two
        bounds, the cut is where the sequence number passes the highest power of two. It depends on the log alone, and stays
        while the log grows by about a quarter of the room.

        Args:
            is_limited: True if groups before `lowest` may be missing, so the limit of events moves with the log.
        """
        fits = self._first_within(tokens, events, lowest)
        if fits == lowest and not is_limited:
            return Cut(lowest, fits)
        if fits == lowest:
            events = min(events, self._events[-1] - self._events[lowest])
        least = self._first_within(ceil(tokens * KEPT), ceil(events * KEPT), fits)
        return Cut(self._steady(fits, least), fits)

    def _first_within(self, tokens: int, events: int, lowest: int) -> int:
        """Returns the index of the first group from which on all groups fit."""
        by_tokens = bisect_left(self._tokens, self._tokens[-1] - tokens, lowest)
        return min(len(self.groups), max(by_tokens, bisect_left(self._events, self._events[-1] - events, lowest)))

    def _steady(self, first: int, last: int) -> int:
        """Returns the index of the cut between these two: the beginning of an invocation if there is one."""
        if first == len(self.groups):
            return first
        last = min(last, len(self.groups) - 1)
        for sequences in (self._starts, self._sequences):
            low, high = bisect_left(sequences, self._sequences[first]), bisect_right(sequences, self._sequences[last])
            if low < high:
                return bisect_left(self._sequences, _roundest(sequences[low:high], sequences[low + 1 : high + 1]))
        return first

    def forget(self, index: int) -> int:
        """Drops groups before that index if there are many. Returns how many were dropped."""
        if index < FORGET_FROM or index < len(self.groups) // 2:
            return 0
        self.bytes -= sum(bytes_of(group) for group in self.groups[:index])
        first = self._sequences[index]
        older = bisect_left(self._all_sequences, first)
        self._all_sequences, self._all_invocations = self._all_sequences[older:], self._all_invocations[older:]
        self._starts = self._starts[bisect_left(self._starts, first) :]
        self._notes = [note for note in self._notes if note[0] >= first]
        self.groups, self._sequences = self.groups[index:], self._sequences[index:]
        self._tokens, self._events = self._tokens[index:], self._events[index:]
        return index


def _roundest(sequences: Sequence[int], following: Sequence[int]) -> int:
    """Returns the number before the highest power of two, counted to the following number; among equals, the first."""
    following = [*following, sequences[-1] + 1] if len(following) < len(sequences) else following
    return max(zip(sequences, following, strict=True), key=lambda pair: (pair[0] ^ pair[1]).bit_length())[0]


def bytes_of(group: Group) -> int:
    """Returns an estimate of the memory of a group."""
    size = _GROUP_BYTES
    for part in (*group.told, *group.said, *group.heard) if group.told or group.said else group.heard:
        if isinstance(part, TextPart):
            size += len(part.text) * (1 if part.text.isascii() else 4)
        elif isinstance(part, BlobPart):
            size += len(part.data)
        else:
            size += len(as_text(part.model_dump(mode="json")))
    return size
