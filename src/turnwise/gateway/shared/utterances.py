"""What of a log is said to the user. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import BaseModel
from pydantic_core import to_json

from turnwise.facts.content import DataPart
from turnwise.facts.events import LIMIT, USER, ErrorInfo, Event
from turnwise.facts.selections import Selection
from turnwise.gateway.redaction import Redactor


def is_shown_to_user(event: Event) -> bool:
    """Whether what is said there, if anything, is part of the answer: what is said on the tasks of a flow becomes its answer,
    and what is said in a private call is for whoever called.
    """
    return event.author != USER and not event.is_private and not event.scope


def shown_text(event: Event) -> str:
    """What the event says to the user, empty when nothing; all questions are for the user. An answer that is data alone is
    said as JSON.
    """
    if event.author == USER or event.content is None or not (is_shown_to_user(event) or event.actions.awaits):
        return ""
    if text := event.text:
        return text
    data = [part.data for part in event.content.parts if isinstance(part, DataPart) and not part.private]
    return "\n".join(to_json(each).decode() for each in data)


def joined_text(events: Iterable[Event]) -> str:
    """All that these events say to the user, joined by line breaks."""
    return "\n".join(filter(None, map(shown_text, events)))


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

    def known(self, invocation_id: str | None, selection: Selection | None, view: Redactor, *, pending: bool) -> "Behind":
        """The same with what became of it, as its reader may see it."""
        shown = view.selection(selection) if selection else None
        found = {"agent": shown.agent, "reason": shown.reason} if shown else {}
        return self.model_copy(update={"invocation_id": invocation_id, "pending": pending, **found})


class Used(NamedTuple):
    """Tokens that models took, as far as they said; cached: of those that they were asked with."""

    asked: int
    cached: int
    answered: int


def token_usage(events: Iterable[Event]) -> Used:
    """What models took for these events."""
    used = [event.actions.usage for event in events if event.actions.usage]
    asked, answered = sum(each.input_tokens for each in used), sum(each.output_tokens for each in used)
    return Used(asked, sum(each.cached_tokens for each in used), answered)


def failure_text(reason: str, error: ErrorInfo | None, view: Redactor) -> str:
    """Why there is no answer, in words. reason: of the end."""
    if reason.startswith(LIMIT):
        return f"The answer ran into the limit {reason.removeprefix(LIMIT)!r}."
    if reason == "cancelled":
        return "The answer was cancelled."
    return view.error(error).message if error else "There is no answer."
