"""Tools that the caller offers, and tool calls with their arguments and results as text."""

from typing import Any

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from turnwise.facts.content import ToolCallPart
from turnwise.facts.messages import OfferedTool


def offered_tool(name: str, description: str | None, parameters: dict[str, JsonValue] | None) -> OfferedTool:
    """Returns the tool that the caller offers."""
    given: dict[str, Any] = {"name": name, "description": description or ""}
    return OfferedTool(**given if parameters is None else {**given, "parameters": parameters})


def call_of(call_id: str, tool: str, written: str) -> ToolCallPart:
    """Returns the call with these JSON arguments; arguments that are not a JSON object are kept as text."""
    try:
        arguments = from_json(written or "{}", allow_inf_nan=False)
    except (ValueError, TypeError):  # TypeError: the text ends with half a surrogate pair
        arguments = None
    if isinstance(arguments, dict):
        return ToolCallPart(call_id=call_id, tool=tool, arguments=arguments)
    return ToolCallPart(call_id=call_id, tool=tool, raw=written)


def arguments_of(call: ToolCallPart) -> str:
    """Returns the call's arguments as text."""
    return to_json(call.arguments).decode() if call.raw is None else call.raw


def result_value(output: str) -> JsonValue:
    """Returns a tool's output: parsed if it is a JSON object or list, otherwise as text."""
    if output.lstrip()[:1] not in ("{", "["):
        return output
    try:
        value: JsonValue = from_json(output, allow_inf_nan=False)
    except (ValueError, TypeError):
        return output
    return value
