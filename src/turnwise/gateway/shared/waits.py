"""The open waits of an invocation, computed from its events. Several protocols use it. Pure functions."""

from collections.abc import Iterable
from typing import NamedTuple

from turnwise.agents.approval import CONFIRM
from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import Await, Event
from turnwise.facts.sessions import Head
from turnwise.gateway.redaction import Redactor
from turnwise.transcript.waits import kind_of
from turnwise.wire.messages import Kind


class OpenWait(NamedTuple):
    """A wait that has no answer yet."""

    event: Event
    """The event that opened it."""
    awaited: Await
    call: ToolCallPart | None
    """The tool call whose result is awaited; None for a reply."""

    @property
    def kind(self) -> Kind:
        """Returns the kind of answer that the wait needs."""
        is_leave = self.call is not None and self.awaited.kind == "tool_result" and self.call.tool == CONFIRM
        return "confirmation" if is_leave else self.awaited.kind

    def is_for(self, view: Redactor) -> bool:
        """Returns whether the caller may answer the wait."""
        return self.call is None or view.answers(kind_of(self.call, self.event))


def open_waits(events: Iterable[Event]) -> list[OpenWait]:
    """Returns the open waits in the events of one invocation, oldest first."""
    open_: dict[str, OpenWait] = {}
    calls: dict[str, ToolCallPart] = {}
    for event in events:
        calls |= {call.call_id: call for call in event.content.tool_calls} if event.content else {}
        if event.actions.answers:
            open_.pop(event.actions.answers, None)
        for result in event.content.tool_results if event.content else ():
            open_.pop(result.call_id, None)
        if awaited := event.actions.awaits:
            open_[awaited.id] = OpenWait(event, awaited, calls.get(awaited.id))
    return list(open_.values())


class Wait(NamedTuple):
    """An open wait of a session."""

    invocation_id: str
    call_id: str
    kind: Kind
    agent: str
    """The agent that waits."""
    tool: str
    """The tool whose result is awaited; "" for a reply."""


def waits_of(head: Head) -> list[Wait]:
    """Returns the session's open waits, newest invocation first."""
    found = []
    for invocation_id, agent, wait in head.waiting():
        call = head.calls.get(wait.id)
        tool = call.tool if call and wait.kind == "tool_result" else ""
        kind: Kind = "reply" if wait.kind == "reply" else "confirmation" if tool == CONFIRM else "tool_result"
        found.append(Wait(invocation_id, wait.id, kind, agent, tool))
    return found
