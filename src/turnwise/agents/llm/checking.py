"""Which calls are not made at all, and what the model is told instead. Pure."""

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from turnwise.agents.llm.pieces import PARTS, TOKENS
from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import Event
from turnwise.ports.tool import ToolSpec

RAW_CHARACTERS = 200
CUT_OFF = {
    TOKENS: ": your answer ran into its limit of tokens before the call was whole. Call it again, with less in one answer.",
    PARTS: ", nor was what you called after it: your answer had more parts than are allowed. Call again, fewer at once.",
}
"""What a model is told of the last call of an answer that was cut off."""


def refused(call: ToolCallPart, event: Event) -> str:
    """Why that call of the event is not made, whatever tool it is for; empty when it may be."""
    blocked = next((g for g in event.actions.guarded if g.call_id == call.call_id and g.action == "block"), None)
    if blocked is not None:
        because = f": {blocked.reason}" if blocked.reason else "."
        return f"It was not called: {blocked.guardrail} blocked it{because}"
    if call.raw is None:
        return ""
    is_last = event.content is not None and event.content.tool_calls[-1].call_id == call.call_id
    if is_last and event.actions.cut_off in CUT_OFF:
        return f"It was not called{CUT_OFF[event.actions.cut_off]}"
    return f"It was not called: its arguments have to be one JSON object, and are: {call.raw[:RAW_CHARACTERS]}"


def misfit(spec: ToolSpec, arguments: Mapping[str, JsonValue]) -> str:
    """What is plainly wrong with the arguments by the tool's schema: names that are missing, and names that it has not.

    Empty when there is nothing; the tool itself checks the rest.
    """
    schema: Mapping[str, Any] = spec.parameters
    properties, required = schema.get("properties"), schema.get("required")
    # A schema of a foreign toolset may hold anything.
    known = [name for name in properties if isinstance(name, str)] if isinstance(properties, Mapping) else []
    needed = [name for name in required if isinstance(name, str)] if isinstance(required, list | tuple) else []
    missing = [name for name in needed if name not in arguments]
    unknown = [name for name in arguments if name not in known] if schema.get("additionalProperties") is False else []
    problems = [*(f"{name!r} is missing" for name in missing), *(f"{name!r} is not a parameter" for name in unknown)]
    if not problems:
        return ""
    return f"The arguments do not fit: {'; '.join(problems)}. Parameters: {', '.join(known) or 'none'}."
