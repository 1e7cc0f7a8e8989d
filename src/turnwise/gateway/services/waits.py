"""The open waits of a session, computed from its head. Pure functions."""

from typing import NamedTuple

from turnwise.agents.approval import CONFIRM
from turnwise.facts.sessions import Head
from turnwise.wire.messages import Kind


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
