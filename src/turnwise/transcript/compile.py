"""Compiles the log into the messages for one agent's model (behaviours D7 to D9, A41)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from turnwise.facts.content import Content, Part, Role, ToolCallPart, ToolResultPart
from turnwise.facts.events import Event
from turnwise.transcript.groups import Group
from turnwise.transcript.trimming import NOT_SHOWN, YOUR_TURN, choose_groups, is_thought
from turnwise.transcript.view import Budget, View, tokens_of_part
from turnwise.transcript.visible import VisibleLog, visible_log

_BLANK = Content()


def assemble_messages(groups: Iterable[Group]) -> tuple[tuple[Content, ...], int]:
    """Returns the messages and their estimated tokens. They begin and end with the user; notes fill the gaps between agent
    messages.
    """
    messages: list[tuple[Role, list[Part]]] = []
    ids: set[str] = set()
    tokens = 0

    def add(role: Role, parts: Sequence[Part]) -> None:
        if messages and messages[-1][0] == role:
            messages[-1][1].extend(parts)
        elif parts:
            messages.append((role, list(parts)))

    def note(part: Part) -> None:
        nonlocal tokens
        tokens += tokens_of_part(part)
        add("user", [part])

    for group in groups:
        if group.said and not messages:
            note(NOT_SHOWN)
        elif is_thought(group) and messages[-1][0] == "agent":
            note(YOUR_TURN)  # some providers require thinking to come first in a message
        said, heard = _with_own_ids(group, ids)
        add("agent", said)
        add("user", heard)
        tokens += group.tokens
    if not messages or messages[-1][0] == "agent":
        note(YOUR_TURN)
    # Copies skip validation: the parts were validated when they were read, and there may be thousands.
    return tuple(_BLANK.replace(role=role, parts=tuple(parts)) for role, parts in messages), tokens


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


class Transcript(NamedTuple):
    """The messages for a model. User and agent alternate; the first and the last message are the user's."""

    messages: tuple[Content, ...]
    tokens: int
    """The estimated size."""
    dropped: int
    """The number of events that did not fit, without those that a summary replaces."""
    summarized: bool
    """True if the transcript begins with a summary."""


def compile_transcript(events: Sequence[Event], view: View, opening: Content, budget: Budget) -> Transcript:
    """Returns the log as that view sees it, within the budget.

    The opening, the agent's events of this run and the user's messages of this invocation take precedence. If they alone
    exceed the budget, long texts are cut in the middle; only if that does not suffice, the budget is exceeded.

    Args:
        events: Stored events, oldest first, up to the end of the log.
        view: The reader.
        opening: The message that began the run (`context.message`). It is shown once, before the run's first event,
            even if the log does not hold it.
        budget: The maximum size.
    """
    choice = choose_groups(visible_log(events, view), view, budget, opening)
    messages, tokens = assemble_messages(choice.groups)
    return Transcript(messages, tokens, choice.dropped, choice.summarized)


def reaches_far_enough(events: Sequence[Event], view: View, budget: Budget) -> bool:
    """Returns whether earlier events cannot change the messages, so that reading the log backwards may stop.

    The events must hold the beginning of this invocation, and fill the budget or reach back to the end of a summary.
    """
    reading = visible_log(events, view)
    if not reading.begun:
        return False
    choice = choose_groups(reading, view, budget, None)
    if choice.covers is not None and _holds_all_above(events, choice.covers):
        return True
    return (choice.stop is not None or choice.full) and not _may_change(reading, choice.stop)


def _holds_all_above(events: Sequence[Event], sequence: int) -> bool:
    """Returns whether the events include all those above that sequence number."""
    first = events[0].sequence
    return first is not None and first <= sequence + 1


def _may_change(reading: VisibleLog, stop: int | None) -> bool:
    """Returns whether earlier events may change something that is shown."""
    if reading.dangling is None or stop is None:
        return reading.dangling is not None
    return stop < reading.current and reading.dangling > reading.order[stop]
