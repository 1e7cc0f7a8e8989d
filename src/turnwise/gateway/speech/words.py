"""What of a log is said to the user. Pure."""

from collections.abc import Iterable

from pydantic_core import to_json

from turnwise.facts.content import DataPart
from turnwise.facts.events import USER, Event


def is_for_user(event: Event) -> bool:
    """Whether what is said there, if anything, is part of the answer: what is said on the tasks of a flow becomes its answer,
    and what is said in a private call is for whoever called.
    """
    return event.author != USER and not event.is_private and not event.scope


def words_of(event: Event) -> str:
    """What the event says to the user, empty when nothing; all questions are for the user. An answer that is data alone is
    said as JSON.
    """
    if event.author == USER or event.content is None or not (is_for_user(event) or event.actions.awaits):
        return ""
    if text := event.text:
        return text
    data = [part.data for part in event.content.parts if isinstance(part, DataPart) and not part.private]
    return "\n".join(to_json(each).decode() for each in data)


def text_of(events: Iterable[Event]) -> str:
    """All that these events say to the user, joined by line breaks."""
    return "\n".join(filter(None, map(words_of, events)))
