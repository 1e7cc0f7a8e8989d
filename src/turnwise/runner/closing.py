"""How an invocation is closed on record, so that nothing of it stays open. Pure, but for the ids."""

from collections.abc import Sequence

from turnwise.facts.content import Content, ToolResultPart
from turnwise.facts.events import End, Event
from turnwise.facts.ids import Issuer
from turnwise.facts.sessions import Head, Session, fold


def bare_event(issuer: Issuer, author: str, invocation_id: str, branch: str = "") -> Event:
    """An event that says nothing yet."""
    return Event(id=issuer.new_id("event"), author=author, invocation_id=invocation_id, created_at=issuer.now(), branch=branch)


def acting(event: Event, **actions: object) -> Event:
    """The event with these actions in place of its own."""
    return event.model_copy(update={"actions": event.actions.model_copy(update=actions)})


def closing_events(issuer: Issuer, head: Head, invocation_id: str, author: str, end: End) -> list[Event]:
    """What ends an invocation: a result for each of its open tool calls, so that the history stays valid for every
    provider (behaviour A23), and the end on the last event. `author` is who held the floor.
    """
    events = [
        bare_event(issuer, call.agent, invocation_id).model_copy(update={"content": _no_result(id_, call.tool, end.reason)})
        for id_, call in head.calls.items()
        if call.invocation_id == invocation_id
    ]
    if not events:
        events = [bare_event(issuer, author, invocation_id)]
    events[-1] = acting(events[-1], end=end)
    return events


def told(error: BaseException) -> str:
    """What an error says, in characters that can be stored; "" when it cannot even say it."""
    try:
        return str(error).encode(errors="backslashreplace").decode()
    except Exception:
        return ""


def after(session: Session, events: Sequence[Event]) -> Session:
    """The session as it will be when these events are stored."""
    first = session.last_sequence + 1
    return fold(session, [event.model_copy(update={"sequence": first + i}) for i, event in enumerate(events)])


def _no_result(call_id: str, tool: str, reason: str) -> Content:
    return Content(parts=(ToolResultPart(call_id=call_id, tool=tool, result=reason, failed=True),))
