"""What is on record of a message or an invocation now, for whoever does not wait for the rest. Pure."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from turnwise.facts.events import USER, Event
from turnwise.facts.sessions import Session
from turnwise.runner.message.continuation import is_over
from turnwise.runner.message.invocation import Result, result_of
from turnwise.runner.record.event_ids import origin_of
from turnwise.runner.record.journal import public

State = Literal["running", "waiting", "ended"]


class Reading(NamedTuple):
    """state: `running` also while it is queued; `waiting` as long as one of its questions or calls is open. result: what was
    said so far, and how it ended; None while it is queued. waits: the ids of what is open.
    """

    message_id: str
    state: State
    result: Result | None
    waits: frozenset[str] = frozenset()


def reading_of(session: Session, events: Sequence[Event], event_id: str | None = None) -> Reading | None:
    """The reading of an invocation by all its events, the hidden ones too; with `event_id`, of the message in that event alone.

    The session has to be read before its events. None when there is no such message among them.
    """
    asked = [index for index, event in enumerate(events) if event.author == USER and event.content is not None]
    first = next((index for index in asked if event_id in (None, events[index].id)), None)
    if first is None:
        return None
    following = next((index for index in asked if index > first), None) if event_id is not None else None
    told = [public(event) for event in events[first:following]]
    result = result_of(told)
    open_ = session.head.invocations.get(told[0].invocation_id)
    waits = {wait.id for _, wait in open_.waits} if open_ else set()
    waits &= {event.actions.awaits.id for event in told if event.actions.awaits}
    running = following is None and not is_over(session, told[0].invocation_id)
    state: State = "ended" if result.end else "running" if running else "waiting" if waits else "ended"
    return Reading(origin_of(told[0].id).message, state, result, frozenset(waits))
