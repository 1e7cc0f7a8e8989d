"""The open tool calls of a log that the caller, a person or a background task must answer."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import Event
from turnwise.facts.sessions import visible
from turnwise.transcript.visible import question_of

Kind = Literal["offered", "confirm", "late"]


@dataclass(frozen=True, slots=True)
class AwaitedCall:
    """A tool call that its agent waits for. A message with a ToolResultPart for `call.call_id` answers it."""

    call: ToolCallPart
    kind: Kind
    """The source of the result. `offered`: the caller, who offered the tool and makes the call. `confirm`: a person, who
    approves or rejects a call; `call.arguments` hold its `tool`, `arguments` and id (`call`). `late`: a task that an
    agent's tool started.
    """
    agent: str
    invocation_id: str
    text: str = ""
    """The agent's text with the call, such as the question in words."""
    expires_at: datetime | None = None
    """None means the session's lifetime."""


def open_calls(events: Iterable[Event]) -> tuple[AwaitedCall, ...]:
    """Returns the calls that are open at the end of these stored events, in the order in which they were made.

    Args:
        events: All events of the invocations, in append order, such as from `Sessions.events(…, invocation_id=…)`.
            The events of one message (`Result.events`) lack earlier calls.
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
    return tuple(replace(call, expires_at=waits[place]) for place, call in calls.items() if place in waits)


def kind_of(call: ToolCallPart, event: Event) -> Kind:
    """Returns the source of that call's result, as a kind of `AwaitedCall`."""
    asked = question_of(event)
    if asked is not None and asked.call_id == call.call_id:
        return "confirm"
    return "offered" if call.offered else "late"
