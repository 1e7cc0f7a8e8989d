"""The log as one agent's model reads it (behaviours D7 to D9, A41)."""

from collections.abc import Sequence
from typing import NamedTuple

from turnwise.facts.content import Content
from turnwise.facts.events import Event
from turnwise.transcript.assembly import assembled
from turnwise.transcript.reading import Reading, read
from turnwise.transcript.trimming import chosen
from turnwise.transcript.view import Budget, View


class Transcript(NamedTuple):
    """What a model is sent: messages of user and agent in turn, the first and the last the user's.

    tokens: the estimate. dropped: how many of the given events did not fit; those that a summary stands for are not among
    them. summarized: a summary is the first thing in it.
    """

    messages: tuple[Content, ...]
    tokens: int
    dropped: int
    summarized: bool


def compiled(events: Sequence[Event], view: View, opening: Content, budget: Budget) -> Transcript:
    """The log as that view sees it, within the budget.

    events: stored ones, oldest first, to the end of the log. opening: what the run was begun with, `context.message`; it is
    shown once, before the run's first event, whether or not the log holds it.

    The opening, what the agent did in this run, and what the user said in this invocation are kept before all else; where
    they alone are too much, long texts are cut in the middle, and only if that is not enough do they exceed the budget.
    """
    choice = chosen(read(events, view), view, budget, opening)
    messages, tokens = assembled(choice.groups)
    return Transcript(messages, tokens, choice.dropped, choice.summarized)


def reaches_far_enough(events: Sequence[Event], view: View, budget: Budget) -> bool:
    """Whether events before these would change nothing in the messages, whatever they hold: so who reads the log backwards
    may stop. It holds the beginning of this invocation, and fills the budget or goes back to what a summary covers.
    """
    reading = read(events, view)
    if not reading.begun:
        return False
    choice = chosen(reading, view, budget, None)
    if choice.covers is not None and _begins_by(events, choice.covers):
        return True
    return (choice.stop is not None or choice.full) and not _is_torn(reading, choice.stop)


def _begins_by(events: Sequence[Event], sequence: int) -> bool:
    """Whether all events above that sequence number are among these."""
    first = events[0].sequence
    return first is not None and first <= sequence + 1


def _is_torn(reading: Reading, stop: int | None) -> bool:
    """Whether something that is shown may read differently with what stands before."""
    if reading.torn is None or stop is None:
        return reading.torn is not None
    return stop < reading.current and reading.torn > reading.order[stop]
