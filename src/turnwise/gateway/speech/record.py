"""What is on record of an answer, as several protocols tell it alike."""

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import BaseModel

from turnwise.facts.events import LIMIT, ErrorInfo, Event
from turnwise.facts.selections import Selection
from turnwise.gateway.shown import View

GOOD = frozenset({"completed", "clarify", "loop", "limit:transfers"})
"""Ends of an answer that is whole. Where hand-overs were stopped, or of a loop, somebody answered who was told of it."""


class Behind(BaseModel):
    """Not OpenAI's: where it is on record. agent: who was selected, and why; null when nobody was (yet). pending: whether an
    agent's own tool was still at work when this was said; what comes of that is said in the session later.
    """

    session_id: str
    message_id: str
    invocation_id: str | None = None
    agent: str | None = None
    reason: str | None = None
    pending: bool = False

    def known(self, invocation_id: str | None, selection: Selection | None, view: View, *, pending: bool) -> "Behind":
        """The same with what became of it, as its reader may see it."""
        shown = view.selection(selection) if selection else None
        found = {"agent": shown.agent, "reason": shown.reason} if shown else {}
        return self.model_copy(update={"invocation_id": invocation_id, "pending": pending, **found})


class Used(NamedTuple):
    """Tokens that models took, as far as they said; cached: of those that they were asked with."""

    asked: int
    cached: int
    answered: int


def used_for(events: Iterable[Event]) -> Used:
    """What models took for these events."""
    used = [event.actions.usage for event in events if event.actions.usage]
    asked, answered = sum(each.input_tokens for each in used), sum(each.output_tokens for each in used)
    return Used(asked, sum(each.cached_tokens for each in used), answered)


def failure(reason: str, error: ErrorInfo | None, view: View) -> str:
    """Why there is no answer, in words. reason: of the end."""
    if reason.startswith(LIMIT):
        return f"The answer ran into the limit {reason.removeprefix(LIMIT)!r}."
    if reason == "cancelled":
        return "The answer was cancelled."
    return view.error(error).message if error else "There is no answer."
