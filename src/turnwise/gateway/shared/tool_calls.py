"""Tools of the caller's own, and calls of tools, as they are written."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import USER, Event
from turnwise.facts.messages import OfferedTool
from turnwise.transcript.waits import Kind, kind_of


class CallMade(NamedTuple):
    """A call that an agent made, and who is to give its result, if it is waited for."""

    call: ToolCallPart
    kind: Kind


def calls_in(events: Iterable[Event]) -> list[CallMade]:
    """The calls that agents made in these events."""
    told = (event for event in events if event.content and event.author != USER)
    return [
        CallMade(call, kind_of(call, event)) for event in told for call in (event.content.tool_calls if event.content else ())
    ]


def offered_tool(name: str, description: str | None, parameters: dict[str, JsonValue] | None) -> OfferedTool:
    """The caller's tool."""
    given: dict[str, Any] = {"name": name, "description": description or ""}
    return OfferedTool(**given if parameters is None else {**given, "parameters": parameters})


def call_of(call_id: str, tool: str, written: str) -> ToolCallPart:
    """The call with these arguments; what is no JSON object stays as it is written."""
    try:
        arguments = from_json(written or "{}", allow_inf_nan=False)
    except (ValueError, TypeError):  # the second for half a character
        arguments = None
    if isinstance(arguments, dict):
        return ToolCallPart(call_id=call_id, tool=tool, arguments=arguments)
    return ToolCallPart(call_id=call_id, tool=tool, raw=written)


def arguments_of(call: ToolCallPart) -> str:
    """The call's arguments as they are written."""
    return to_json(call.arguments).decode() if call.raw is None else call.raw


def result_value(output: str) -> JsonValue:
    """What a call gave: an object or a list that is written as JSON is one; any other text is that text."""
    if output.lstrip()[:1] not in ("{", "["):
        return output
    try:
        value: JsonValue = from_json(output, allow_inf_nan=False)
    except (ValueError, TypeError):
        return output
    return value
