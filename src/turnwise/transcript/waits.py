"""The tool calls of a log whose results have to come from outside, and from whom."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, NamedTuple

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import Event
from turnwise.facts.sessions import visible
from turnwise.transcript.visible import question_of

Kind = Literal["offered", "confirm", "late"]


class AwaitedCall(NamedTuple):
    """A call that its agent waits for. A message with a ToolResultPart for `call.call_id` answers it.

    kind: who is to give the result. `offered`: the caller, who offered the tool and makes the call. `confirm`: a person, who
    lets a call be made or not: `call.arguments` are that call's `tool`, `arguments` and id (`call`). `late`: whoever a tool of
    the agent set to work.
    text: what the agent said with the call, such as the question in words. expires_at: None = with the session.
    """

    call: ToolCallPart
    kind: Kind
    agent: str
    invocation_id: str
    text: str = ""
    expires_at: datetime | None = None


def open_calls(events: Iterable[Event]) -> tuple[AwaitedCall, ...]:
    """The calls that are waited for at the end of these stored events, in the order in which they were made.

    The events are those of whole invocations, in append order, such as `Sessions.events(…, invocation_id=…)` gives: what one
    message brought about (`Result.events`) does not hold the calls that were made before it.
    """
    calls: dict[tuple[str, str], AwaitedCall] = {}
    waits: dict[tuple[str, str], datetime | None] = {}
    for event in visible(event for event in events if not event.partial):
        invocation, awaits = event.invocation_id, event.actions.awaits
        for call in event.content.tool_calls if event.content else ():
            calls[invocation, call.call_id] = AwaitedCall(call, kind_of(call, event), event.author, invocation, event.text)
        if awaits is not None:
            waits[invocation, awaits.id] = awaits.expires_at
        for result in event.content.tool_results if event.content else ():
            calls.pop((invocation, result.call_id), None)
            waits.pop((invocation, result.call_id), None)
        if event.actions.end is not None:
            calls = {place: call for place, call in calls.items() if place[0] != invocation}
            waits = {place: until for place, until in waits.items() if place[0] != invocation}
    return tuple(call._replace(expires_at=waits[place]) for place, call in calls.items() if place in waits)


def kind_of(call: ToolCallPart, event: Event) -> Kind:
    """Who is to give the result of that call of the event, if it is waited for; a kind of `AwaitedCall`."""
    asked = question_of(event)
    if asked is not None and asked.call_id == call.call_id:
        return "confirm"
    return "offered" if call.offered else "late"
