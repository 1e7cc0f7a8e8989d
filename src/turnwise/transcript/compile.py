"""The log as one agent's model reads it (behaviours D7 to D9, A41)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from turnwise.facts.content import Content, Part, Role, ToolCallPart, ToolResultPart
from turnwise.facts.events import Event
from turnwise.transcript.groups import Group
from turnwise.transcript.sizes import tokens_of_part
from turnwise.transcript.trimming import NOT_SHOWN, YOUR_TURN, choose_groups, is_thought
from turnwise.transcript.view import Budget, View
from turnwise.transcript.visible import VisibleLog, visible_log

_BLANK = Content()


def assemble_messages(groups: Iterable[Group]) -> tuple[tuple[Content, ...], int]:
    """The messages, and the estimate of their tokens. They begin and end with the user; where nobody spoke in between, a note
    stands for it.
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
            note(YOUR_TURN)  # some providers want thinking to come first in a message
        said, heard = _with_own_ids(group, ids)
        add("agent", said)
        add("user", heard)
        tokens += group.tokens
    if not messages or messages[-1][0] == "agent":
        note(YOUR_TURN)
    # Copied, not made: the parts were checked when they were read, and a long conversation holds thousands.
    return tuple(_BLANK.model_copy(update={"role": role, "parts": tuple(parts)}) for role, parts in messages), tokens


def _with_own_ids(group: Group, ids: set[str]) -> tuple[Sequence[Part], Sequence[Part]]:
    """What was said and heard, with ids of calls that no group before has, and no other call in this one."""
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
    return [
        part.model_copy(update={"call_id": next(left)}) if isinstance(part, ToolCallPart | ToolResultPart) else part
        for part in parts
    ]


class Transcript(NamedTuple):
    """What a model is sent: messages of user and agent in turn, the first and the last the user's.

    tokens: the estimate. dropped: how many of the given events did not fit; those that a summary stands for are not among
    them. summarized: a summary is the first thing in it.
    """

    messages: tuple[Content, ...]
    tokens: int
    dropped: int
    summarized: bool


def compile_transcript(events: Sequence[Event], view: View, opening: Content, budget: Budget) -> Transcript:
    """The log as that view sees it, within the budget.

    events: stored ones, oldest first, to the end of the log. opening: what the run was begun with, `context.message`; it is
    shown once, before the run's first event, whether or not the log holds it.

    The opening, what the agent did in this run, and what the user said in this invocation are kept before all else; where
    they alone are too much, long texts are cut in the middle, and only if that is not enough do they exceed the budget.
    """
    choice = choose_groups(visible_log(events, view), view, budget, opening)
    messages, tokens = assemble_messages(choice.groups)
    return Transcript(messages, tokens, choice.dropped, choice.summarized)


def reaches_far_enough(events: Sequence[Event], view: View, budget: Budget) -> bool:
    """Whether events before these would change nothing in the messages, whatever they hold: so who reads the log backwards
    may stop. It holds the beginning of this invocation, and fills the budget or goes back to what a summary covers.
    """
    reading = visible_log(events, view)
    if not reading.begun:
        return False
    choice = choose_groups(reading, view, budget, None)
    if choice.covers is not None and _begins_by(events, choice.covers):
        return True
    return (choice.stop is not None or choice.full) and not _is_torn(reading, choice.stop)


def _begins_by(events: Sequence[Event], sequence: int) -> bool:
    """Whether all events above that sequence number are among these."""
    first = events[0].sequence
    return first is not None and first <= sequence + 1


def _is_torn(reading: VisibleLog, stop: int | None) -> bool:
    """Whether something that is shown may read differently with what stands before."""
    if reading.torn is None or stop is None:
        return reading.torn is not None
    return stop < reading.current and reading.torn > reading.order[stop]
