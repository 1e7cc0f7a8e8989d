"""Tools that a caller offers with a message: which ones are taken."""

import json
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from turnwise.facts.errors import MessageError, MessageTooLarge
from turnwise.facts.limits import Limits
from turnwise.facts.messages import OfferedTool
from turnwise.tools.names import NAME_CHARACTERS, is_tool_name, reserved_for

SCHEMA_BYTES = 32 * 1024
"""How large one tool's parameters may be, as JSON."""
SCHEMA_DEPTH = 32
"""How many objects and lists may stand in each other there."""


def check_offers(tools: Sequence[OfferedTool], limits: Limits) -> None:
    """MessageTooLarge, MessageError for tools that no model could be shown, or that would pass for something else.

    Two never share a name; none has a name that the runtime keeps for itself, nor one that a provider would refuse. What
    stands deeper in a schema is the provider's to refuse.
    """
    if len(tools) > limits.tools:
        raise MessageTooLarge(
            f"The message offers {len(tools)} tools, {limits.tools} are allowed.", fix="Offer fewer, or raise limits.tools."
        )
    names: set[str] = set()
    for place, tool in enumerate(tools):
        _check_name(place, tool.name)
        if tool.name in names:
            raise MessageError(f"The message offers two tools named {tool.name!r}.", fix="Rename one of them.")
        names.add(tool.name)
        _check_schema(tool.name, tool.parameters)


def _check_name(place: int, name: str) -> None:
    if not is_tool_name(name):
        raise MessageError(
            f"Tool {place} of the message has a name that providers refuse.",
            fix=f"Use 1 to {NAME_CHARACTERS} of a-z, A-Z, 0-9, '_' and '-', beginning with a letter or '_'.",
        )
    if (purpose := reserved_for(name)) is not None:
        raise MessageError(f"The tool name {name!r} is reserved for {purpose}.", fix="Rename the tool.")


def _check_schema(tool: str, schema: Mapping[str, JsonValue]) -> None:
    if _is_deep(schema):
        raise MessageTooLarge(
            f"The parameters of the tool {tool!r} are nested more than {SCHEMA_DEPTH} levels deep.",
            fix="Describe them with a flatter schema.",
        )
    try:
        size = len(json.dumps(schema, ensure_ascii=False, allow_nan=False).encode())
    except ValueError as error:
        raise MessageError(
            f"The parameters of the tool {tool!r} are no JSON: {error}.", fix="Use numbers and text that JSON can write."
        ) from None
    if size > SCHEMA_BYTES:
        raise MessageTooLarge(
            f"The parameters of the tool {tool!r} have {size:,} bytes of JSON, {SCHEMA_BYTES:,} are allowed.",
            fix="Shorten the schema.",
        )
    if problem := _misshapen(schema):
        raise MessageError(
            f"The parameters of the tool {tool!r} are no JSON schema of an object: {problem}.",
            fix='Begin with {"type": "object", "properties": {…}}.',
        )


def _is_deep(schema: JsonValue | Mapping[str, JsonValue]) -> bool:
    level = [schema]
    for _ in range(SCHEMA_DEPTH):
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return False
    return True


def _inside(value: JsonValue | Mapping[str, JsonValue]) -> Sequence[JsonValue]:
    """The objects and lists that stand right in it."""
    held = list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list) else []
    return [each for each in held if isinstance(each, dict | list)]


def _misshapen(schema: Mapping[str, JsonValue]) -> str:
    """What is plainly wrong with it; empty when nothing is."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("type") != "object":
        return "its 'type' is not 'object'"
    if not isinstance(properties, dict) or not all(isinstance(each, dict | bool) for each in properties.values()):
        return "'properties' is no object of schemas"
    if not isinstance(required, list) or not all(isinstance(each, str) for each in required):
        return "'required' is no list of names"
    return ""
