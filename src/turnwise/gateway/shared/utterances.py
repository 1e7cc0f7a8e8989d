"""Extracts the answer to the user from a log: texts, token usage and failures. Pure functions."""

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import BaseModel
from pydantic_core import to_json

from turnwise.facts.content import DataPart
from turnwise.facts.events import LIMIT, USER, ErrorInfo, Event
from turnwise.facts.fact import replaced
from turnwise.facts.selections import Selection
from turnwise.gateway.redaction import Redactor


def is_shown_to_user(event: Event) -> bool:
    """Returns whether the event's text is part of the answer.

    Texts inside a flow's tasks or a private call are not: the flow or the calling agent uses them for its own answer.
    """
    return event.author != USER and not event.is_private and not event.scope


def shown_text(event: Event) -> str:
    """Returns the text that the event shows to the user; "" if none.

    Questions are always shown. Content that is only data is shown as JSON.
    """
    if event.author == USER or event.content is None or not (is_shown_to_user(event) or event.actions.awaits):
        return ""
    if text := event.text:
        return text
    data = [part.data for part in event.content.parts if isinstance(part, DataPart) and not part.private]
    return "\n".join(to_json(each).decode() for each in data)


def joined_text(events: Iterable[Event]) -> str:
    """Returns the texts of the events that the user sees, joined by newlines."""
    return "\n".join(filter(None, map(shown_text, events)))


COMPLETE_ENDS = frozenset({"completed", "clarify", "loop", "limit:transfers"})
"""End reasons of a complete answer. After a stopped handoff or loop, an agent still gave an answer."""


class DecisionInfo(BaseModel):
    """Turnwise's own addition to OpenAI's schema: where the answer is recorded and why its agent was selected.

    `agent` and `reason` are null if no agent was selected yet. `pending` is true if an agent's tool was still running
    at the end of this answer; its result appears in the session later.
    """

    session_id: str
    message_id: str
    invocation_id: str | None = None
    agent: str | None = None
    reason: str | None = None
    pending: bool = False

    def known(self, invocation_id: str | None, selection: Selection | None, view: Redactor, *, pending: bool) -> "DecisionInfo":
        """Returns a copy with the invocation and the selection, reduced to the fields that the caller may see."""
        shown = view.selection(selection) if selection else None
        agent, reason = (shown.agent, shown.reason) if shown else (self.agent, self.reason)
        return replaced(self, invocation_id=invocation_id, pending=pending, agent=agent, reason=reason)


class TokenUsage(NamedTuple):
    """Token usage as the models report it."""

    asked: int
    """Input tokens."""
    cached: int
    """Input tokens that came from a cache."""
    answered: int
    """Output tokens."""


def token_usage(events: Iterable[Event]) -> TokenUsage:
    """Returns the total token usage of these events."""
    used = [event.actions.usage for event in events if event.actions.usage]
    asked, answered = sum(each.input_tokens for each in used), sum(each.output_tokens for each in used)
    return TokenUsage(asked, sum(each.cached_tokens for each in used), answered)


def failure_text(reason: str, error: ErrorInfo | None, view: Redactor) -> str:
    """Returns the reason for a missing answer as text. `reason` is the end's reason."""
    if reason.startswith(LIMIT):
        return f"The answer ran into the limit {reason.removeprefix(LIMIT)!r}."
    if reason == "cancelled":
        return "The answer was cancelled."
    return view.error(error).message if error else "There is no answer."
