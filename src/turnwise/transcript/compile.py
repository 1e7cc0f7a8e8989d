"""Compiles the log into messages for one agent's model (behaviours D7 to D9, A41), and checks if providers accept them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from turnwise.facts.content import BlobPart, Content, Part, Role, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import Event, Summary
from turnwise.facts.fact import values_of
from turnwise.transcript.earlier import EarlierLog, Places
from turnwise.transcript.fences import MARK
from turnwise.transcript.groups import NOTE_REVOKED, Group, Note, states_situation
from turnwise.transcript.trimming import NOT_SHOWN, YOUR_TURN, ChosenGroups, choose_groups, is_thought
from turnwise.transcript.view import Budget, View, not_rewound, tokens_of_part, visible_log

_GIVEN = {"role", "parts"}


class Assembler:
    """Joins groups to messages. They begin and end with the user; notes fill the gaps between agent messages.

    Attributes:
        tokens: The estimated size.
        has_marks: True if a message of the user holds the mark of another speaker.
    """

    def __init__(self) -> None:
        self.tokens, self.has_marks = 0, False
        self._done: list[Content] = []
        self._closed: list[dict[str, Any]] = []
        """The values of the messages after those, which are all made at once."""
        self._role: Role | None = None
        self._parts: list[Part] = []
        self._ids: set[str] = set()

    def copy(self) -> "Assembler":
        other = Assembler()
        other.tokens, other.has_marks = self.tokens, self.has_marks
        self._finish()
        other._done, other._role, other._parts = self._done.copy(), self._role, self._parts.copy()
        other._ids = self._ids.copy()
        return other

    def add(self, group: Group) -> None:
        """Adds the next group."""
        said: Sequence[Part]
        heard: Sequence[Part]
        said, heard, tokens, _, told = group
        self.tokens += tokens
        if told:
            self._put("user", told)
        if said and self._role is None:
            self._note(NOT_SHOWN)
        elif said and self._role == "agent" and is_thought(group):
            self._note(YOUR_TURN)  # some providers require thinking to come first in a message
        if len(said) > 1 or (said and not isinstance(said[0], TextPart)):  # a single text is the usual case
            said, heard = _with_own_ids(group, self._ids)
        if said:
            self._put("agent", said)
        if heard:
            self._put("user", heard)

    def messages(self, note: Part | None = None) -> tuple[Content, ...]:
        """Returns the messages, with that note at the end. Nothing can be added afterwards."""
        if note is not None:
            self._note(note)
        if self._role != "user":
            self._note(YOUR_TURN)
        self._close()
        self._finish()
        return tuple(self._done)

    def _note(self, part: Part) -> None:
        self.tokens += tokens_of_part(part)
        self._put("user", (part,))

    def _put(self, role: Role, parts: Sequence[Part]) -> None:
        """Adds parts to the open message of that role, or begins a new one. There is at least one part."""
        if self._role != role:
            self._close()
            self._role = role
        self._parts += parts
        if role == "user" and not self.has_marks:
            self.has_marks = any([type(part) is TextPart and MARK in values_of(part)["text"] for part in parts])  # noqa: C419

    def _close(self) -> None:
        """Ends the open message."""
        if self._role is not None:
            self._closed.append({"role": self._role, "parts": tuple(self._parts)})
        self._role, self._parts = None, []

    def _finish(self) -> None:
        """Makes the messages. Without validation: the parts were validated when they were read, and there may be thousands."""
        self._done += Content.many_of_valid(self._closed, _GIVEN)
        self._closed = []


def assemble_messages(groups: Iterable[Group]) -> tuple[tuple[Content, ...], int]:
    """Returns the messages of these groups and their estimated tokens."""
    assembler = Assembler()
    for group in groups:
        assembler.add(group)
    return assembler.messages(), assembler.tokens


def _with_own_ids(group: Group, ids: set[str]) -> tuple[Sequence[Part], Sequence[Part]]:
    """Returns the parts of a group with call ids that are unique in the transcript."""
    calls = [part.call_id for part in group.said if isinstance(part, ToolCallPart)]
    if not calls:
        return group.said, group.heard
    fresh = []
    for id_ in calls:
        own, number = id_, 1
        while own in ids:
            number += 1
            own = f"{id_}-{number}"
        ids.add(own)
        fresh.append(own)
    if fresh == calls:
        return group.said, group.heard
    return _renamed(group.said, fresh), _renamed(group.heard, fresh)


def _renamed(parts: Sequence[Part], ids: Sequence[str]) -> list[Part]:
    left = iter(ids)
    return [part.replace(call_id=next(left)) if isinstance(part, ToolCallPart | ToolResultPart) else part for part in parts]


_NO_PLACES = Places()
NO_NOTE = Note()


@dataclass(frozen=True, slots=True)
class Transcript:
    """The messages for a model. User and agent alternate; the first and the last message are the user's."""

    messages: tuple[Content, ...]
    tokens: int
    """The estimated size."""
    dropped: int
    """The number of groups that did not fit, without those that a summary replaces."""
    summarized: bool
    """True if the transcript begins with a summary."""
    has_marks: bool = False
    """True if the user's messages hold marks, which the instructions have to explain."""
    note: Note = NO_NOTE
    """The note at the end; empty when none is there. The caller records it with the answer."""
    uncovered: Places = _NO_PLACES
    """The newest earlier events that no summary of the reader covers, shown or not; at most as many as the budget allows."""


class CompiledLog:
    """The log as one agent reads it. It keeps what it compiled, so a later turn compiles only the new events.

    Args:
        view: The reader. Its branch, invocation and giver may differ from call to call; the rest may not.
    """

    def __init__(self, view: View) -> None:
        self.earlier = EarlierLog(view)
        self.is_whole = False
        """True if no event of the log is missing before these."""
        self._assembled: _Assembled | None = None

    @property
    def bytes(self) -> int:
        """The estimated memory."""
        return self.earlier.bytes

    @property
    def last(self) -> Event | None:
        """The newest event of other invocations; None when there is none."""
        return self.earlier.last

    def holds(self, invocation_id: str) -> bool:
        """Returns whether events of that invocation are compiled as earlier ones."""
        return self.earlier.holds_invocation(invocation_id)

    def extend(self, events: Sequence[Event]) -> bool:
        """Adds events of other invocations, oldest first.

        Returns False, and adds nothing, if they would change what is compiled. The log must then be read from nothing.
        """
        return self.earlier.extend(events)

    def transcript(
        self,
        current: Sequence[Event],
        view: View,
        opening: Content,
        budget: Budget,
        *,
        limit: int | None = None,
        note: Note = NO_NOTE,
    ) -> Transcript:
        """Returns the log within the budget; see `compile_transcript`.

        Args:
            current: The events of the view's invocation, oldest first.
            limit: The most events of the log that may be read; None means all.
            note: Further text for the reader. It is added at the end, unless it is the newest note that is shown. Without
                a situation, it revokes the one that is shown.
        """
        room = budget._replace(tokens=max(0, budget.tokens - self._note_tokens(current, note)))
        choice = choose_groups(self.earlier, visible_log(current, view), view, room, opening, limit=limit)
        assembler = self._assemble(choice.summary, choice.first)
        for group in choice.groups:
            assembler.add(group)
        added = self._new_note(choice, note)
        messages = assembler.messages(added.part() if added else None)
        summary = _last_summary(self.earlier, current, view.agent)
        uncovered = self.earlier.newest(budget.events, above=summary.until if summary else 0)
        self._forget(choice.fits * 3 // 4)
        return Transcript(
            messages, assembler.tokens, choice.dropped, bool(choice.summary), assembler.has_marks, added, uncovered
        )

    def _note_tokens(self, current: Sequence[Event], note: Note) -> int:
        """Returns the most tokens that the note at the end takes."""
        if note or self.earlier.has_notes or any(event.actions.note for event in current):
            return tokens_of_part((note if note.text else note._replace(text=NOTE_REVOKED)).part())
        return 0

    def _new_note(self, choice: ChosenGroups, note: Note) -> Note:
        """Returns the note to add at the end; empty when the reader has been told already."""
        shown = next((group.told[-1] for group in reversed(choice.groups) if group.told), None)
        last = shown or self.earlier.last_note(choice.first)
        revoked = note._replace(text=note.text or NOTE_REVOKED)
        if last in (note.part(), revoked.part()):
            return NO_NOTE
        return revoked if states_situation(last) else note

    def reaches_far_enough(self, current: Sequence[Event], view: View, budget: Budget, *, limit: int | None = None) -> bool:
        """Returns whether events before all of these cannot change the messages."""
        reading = visible_log(current, view)
        if not reading.begun:
            return False
        choice = choose_groups(self.earlier, reading, view, budget, None, limit=limit)
        if choice.covers is not None and self._holds_all_above(current, choice.covers):
            return True
        if limit is not None and self.earlier.count + len(reading.events) >= limit:
            return True
        return choice.stop is not None and not self._may_change(current, choice.stop)

    def _holds_all_above(self, current: Sequence[Event], sequence: int) -> bool:
        firsts = [event.sequence or 0 for event in current[:1]]
        if self.earlier.first_sequence is not None:
            firsts.append(self.earlier.first_sequence)
        return bool(firsts) and min(firsts) <= sequence + 1

    def _may_change(self, current: Sequence[Event], stop: int | None) -> bool:
        """Returns whether events before all of these may change a group that is shown."""
        dangling = self.earlier.dangling
        if not dangling or stop is None:
            return bool(dangling)
        return dangling > stop and all(event.sequence != stop for event in current)

    def _assemble(self, summary: Sequence[Group], first: int) -> Assembler:
        """Returns an assembler with the summary and the earlier groups from that index on."""
        groups = self.earlier.groups
        known = self._assembled
        if known is None or known.first != first or known.summary != summary:
            known = self._assembled = _Assembled(first, summary, first, Assembler())
            for group in summary:
                known.assembler.add(group)
        for group in groups[known.until :]:
            known.assembler.add(group)
        self._assembled = known._replace(until=len(groups))
        return known.assembler.copy()

    def _forget(self, index: int) -> None:
        if (dropped := self.earlier.forget(index)) == 0:
            return
        self.is_whole = False
        if (known := self._assembled) is not None:
            self._assembled = known._replace(first=known.first - dropped, until=known.until - dropped)


class _Assembled(NamedTuple):
    """The assembled messages of the earlier groups from index `first` to `until`, after a summary."""

    first: int
    summary: Sequence[Group]
    until: int
    assembler: Assembler


def _last_summary(earlier: EarlierLog, current: Sequence[Event], agent: str) -> Summary | None:
    own = (event.actions.summary for event in reversed(current) if event.author == agent)
    known = earlier.summary.summary if earlier.summary else None
    return next((summary for summary in own if summary is not None), known)


def compiled_log(events: Sequence[Event], view: View) -> tuple[CompiledLog, Sequence[Event]]:
    """Returns the compiled earlier invocations, and the events of the view's invocation.

    Args:
        events: Stored events, oldest first, up to the end of the log.
        view: The reader.
    """
    stored = not_rewound(events)
    log = CompiledLog(view)
    log.earlier.extend([event for event in stored if event.invocation_id != view.invocation_id])
    return log, [event for event in stored if event.invocation_id == view.invocation_id]


def compile_transcript(events: Sequence[Event], view: View, opening: Content, budget: Budget) -> Transcript:
    """Returns the log as that view sees it, within the budget.

    The opening, the agent's events of this run and the user's messages of this invocation take precedence. If they alone
    exceed the budget, long texts are cut in the middle; only if that does not suffice, the budget is exceeded.

    A log that does not fit is cut down to about 75 % of the budget, at a place that depends on the log alone. The place
    stays for many turns, so a provider's cache keeps the beginning of the request.

    Args:
        events: Stored events, oldest first, up to the end of the log.
        view: The reader.
        opening: The message that began the run (`context.message`). It is shown once, before the run's first event,
            even if the log does not hold it.
        budget: The maximum size.
    """
    log, current = compiled_log(events, view)
    return log.transcript(current, view, opening, budget)


def reaches_far_enough(events: Sequence[Event], view: View, budget: Budget) -> bool:
    """Returns whether earlier events cannot change the messages, so that reading the log backwards may stop.

    The events must hold the beginning of this invocation, and fill the budget or reach back to the end of a summary.
    """
    log, current = compiled_log(events, view)
    return log.reaches_far_enough(current, view, budget)


_TOOL = re.compile(r"[A-Za-z0-9_-]{1,64}")


def problems(messages: Sequence[Content]) -> list[str]:
    """Returns the problems, one line each; empty when there are none.

    Messages alternate, begin and end with the user, and have no empty or blank text. A message neither consists of
    thinking alone nor ends with it. Each call has a unique id and exactly one result, in the next message, where results
    come first.
    """
    found = [] if messages else ["There is no message."]
    if messages and messages[0].role != "user":
        found.append("The first message is the agent's.")
    if messages and messages[-1].role != "user":
        found.append("The last message is the agent's.")
    seen: set[str] = set()
    calls: dict[str, str] = {}
    before: Content | None = None
    for number, message in enumerate(messages, 1):
        if before is not None and message.role == before.role:
            found.append(f"Message {number}: two of {message.role!r} stand side by side.")
        found += [f"Message {number}: {wrong}" for wrong in _in_message(message, calls)]
        calls = {call.call_id: call.tool for call in message.tool_calls}
        ids = [call.call_id for call in message.tool_calls]
        found += [f"Message {number}: the call id {id_!r} is used twice." for id_ in _repeated(ids, seen)]
        seen.update(ids)
        before = message
    return found


def _in_message(message: Content, called: dict[str, str]) -> Iterator[str]:
    """Yields the problems of one message.

    Args:
        asked: The tools called in the message before, by call id.
    """
    if not message.parts:
        yield "it is empty."
    for part in message.parts:
        if not _is_allowed(part, message.role):
            yield f"a part of kind {part.kind!r} cannot be the {message.role}'s."
        if isinstance(part, TextPart) and not part.text.strip():
            yield "a text is blank."
        if isinstance(part, ToolCallPart) and not _TOOL.fullmatch(part.tool):
            yield f"{part.tool!r} cannot be a tool's name."
    if message.parts and isinstance(message.parts[-1], ThinkingPart):
        yield "it ends with thinking."
    yield from _results(message, called)


def _is_allowed(part: Part, role: str) -> bool:
    if isinstance(part, TextPart):
        return True
    if role == "agent":
        return isinstance(part, ThinkingPart | ToolCallPart)
    return isinstance(part, BlobPart | ToolResultPart)


def _results(message: Content, called: dict[str, str]) -> Iterator[str]:
    """Yields the problems of a message's tool results: not first, missing, repeated, or without a call."""
    results = message.tool_results
    if any(not isinstance(part, ToolResultPart) for part in message.parts[: len(results)]):
        yield "its results do not stand first."
    result_ids = [result.call_id for result in results]
    for id_ in called:
        if result_ids.count(id_) != 1:
            yield f"the call {id_!r} has {result_ids.count(id_)} results."
    for result in results:
        if result.call_id not in called:
            yield f"the result {result.call_id!r} has no call in the message before."
        elif result.tool != called[result.call_id]:
            yield f"the result {result.call_id!r} names another tool than its call."


def _repeated(ids: Sequence[str], seen: set[str]) -> list[str]:
    return [id_ for place, id_ in enumerate(ids) if id_ in seen or id_ in ids[:place]]
