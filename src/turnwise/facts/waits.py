"""Waits: the questions and tool calls that an invocation waits for, computed from a log or from a head. Pure functions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import USER, Await, Event
from turnwise.facts.sessions import Head, visible, waits_after

APPROVAL_TOOL = "confirm"
"""The internal tool by which an agent asks a person for approval of a call."""
WaitKind = Literal["reply", "tool_result", "confirmation"]
PendingReason = Literal["reply", "tool_result", "held", "unknown_agent", "no_room", "no_process", "engine"]
"""Why a session waits: an agent waits, or a message and nobody answers it."""
"""The awaited answer: the user's reply, a tool's result, or a person's approval of a call."""
_NO_CALLS: Mapping[str, ToolCallPart] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Wait:
    """An open question or tool call of an invocation. A message that answers it continues the invocation."""

    invocation_id: str
    id: str
    """The id of the wait: of a question, or of the awaited call."""
    kind: WaitKind
    agent: str
    """The agent that waits."""
    tool: str = ""
    """The tool whose result is awaited; empty for a reply."""
    expires_at: datetime | None = None
    """None means the session's lifetime."""
    call: ToolCallPart | None = None
    """The awaited call; for a confirmation its `arguments` hold the `tool`, `arguments` and id (`call`) of the call to approve.
    None for a reply, and if the source does not hold the call.
    """
    event: Event | None = None
    """The event that opened the wait; None if the source is a head."""

    @property
    def text(self) -> str:
        """The agent's text with the wait, such as the question."""
        return self.event.text if self.event else ""


def is_approval(call: ToolCallPart) -> bool:
    """Returns whether the call asks a person for approval, and is not a user's tool of the same name."""
    asked = call.tool == APPROVAL_TOOL and call.private
    return asked and all(isinstance(call.arguments.get(name), str) for name in ("tool", "call"))


def is_late(call: ToolCallPart) -> bool:
    """Returns whether only work that the agent's own tool started can give the call's result."""
    return not call.offered and not is_approval(call)


def calls_in(events: Iterable[Event]) -> list[ToolCallPart]:
    """Returns the tool calls that agents made in these events."""
    return [call for event in events if event.content and event.author != USER for call in event.content.tool_calls]


def open_waits(events: Iterable[Event]) -> tuple[Wait, ...]:
    """Returns the waits that are open at the end of these events, oldest first within each invocation.

    Args:
        events: All events of the invocations, in append order, such as from `Sessions.events(…, invocation_id=…)`.
            The events of one message (`Result.events`) lack earlier calls.
    """
    open_: dict[str, tuple[tuple[str, Await], ...]] = {}
    opened: dict[tuple[str, str], Event] = {}
    calls: dict[tuple[str, str], ToolCallPart] = {}
    for event in visible(event for event in events if not event.partial):
        id_, awaits = event.invocation_id, event.actions.awaits
        open_[id_] = waits_after(open_.get(id_, ()), event)
        calls |= {(id_, call.call_id): call for call in calls_in([event])}
        if awaits:
            opened[id_, awaits.id] = event
    return tuple(
        _wait(id_, agent, wait, calls.get((id_, wait.id)), opened[id_, wait.id])
        for id_, waits in open_.items()
        for agent, wait in waits
    )


def wait_opened_by(event: Event, earlier: Mapping[str, ToolCallPart] = _NO_CALLS) -> Wait | None:
    """Returns the wait that this event opens; None if it opens none. `earlier`: the calls before it, by id."""
    if (awaits := event.actions.awaits) is None:
        return None
    own = next((call for call in calls_in([event]) if call.call_id == awaits.id), None)
    return _wait(event.invocation_id, event.author, awaits, own or earlier.get(awaits.id), event)


def waits_of(head: Head) -> Iterator[Wait]:
    """Yields the session's open waits, newest invocation first."""
    for id_, agent, wait in head.waiting():
        tool = head.calls[wait.id].tool if wait.kind == "tool_result" and wait.id in head.calls else ""
        kind: WaitKind = "confirmation" if tool == APPROVAL_TOOL else wait.kind
        yield Wait(id_, wait.id, kind, agent, tool, wait.expires_at)


def _wait(invocation_id: str, agent: str, wait: Await, call: ToolCallPart | None, event: Event) -> Wait:
    kind: WaitKind = "confirmation" if wait.kind == "tool_result" and call and is_approval(call) else wait.kind
    return Wait(invocation_id, wait.id, kind, agent, call.tool if call else "", wait.expires_at, call, event)
