"""Checks the tools that a caller offers with a message."""

import json
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from turnwise.facts.errors import MessageError, MessageTooLarge
from turnwise.facts.limits import Limits
from turnwise.facts.messages import OfferedTool
from turnwise.tools.names import NAME_CHARACTERS, is_tool_name, reserved_for

SCHEMA_BYTES = 32 * 1024
"""The most bytes of a tool's parameter schema as JSON."""
SCHEMA_DEPTH = 32
"""The most nesting levels of that schema."""


def check_offers(tools: Sequence[OfferedTool], limits: Limits) -> None:
    """Checks the tools of a message.

    Names must be unique, accepted by every provider and not reserved. Only the top level of a schema is checked; the
    provider checks the rest.

    Raises:
        MessageTooLarge: There are too many tools, or a schema is too large or too deep.
        MessageError: A name or a schema is not valid.
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
    """Raises MessageError for an offered tool with an invalid or reserved name."""
    if not is_tool_name(name):
        raise MessageError(
            f"Tool {place} of the message has a name that providers refuse.",
            fix=f"Use 1 to {NAME_CHARACTERS} of a-z, A-Z, 0-9, '_' and '-', beginning with a letter or '_'.",
        )
    if (purpose := reserved_for(name)) is not None:
        raise MessageError(f"The tool name {name!r} is reserved for {purpose}.", fix="Rename the tool.")


def _check_schema(tool: str, schema: Mapping[str, JsonValue]) -> None:
    """Raises MessageError or MessageTooLarge for an invalid, large or deep schema of parameters."""
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
    if problem := _shape_problem(schema):
        raise MessageError(
            f"The parameters of the tool {tool!r} are no JSON schema of an object: {problem}.",
            fix='Begin with {"type": "object", "properties": {…}}.',
        )


def _is_deep(schema: JsonValue | Mapping[str, JsonValue]) -> bool:
    """Returns whether the schema is nested too deeply."""
    level = [schema]
    for _ in range(SCHEMA_DEPTH):
        level = [inner for value in level for inner in _nested(value)]
        if not level:
            return False
    return True


def _nested(value: JsonValue | Mapping[str, JsonValue]) -> Sequence[JsonValue]:
    """Returns the objects and lists directly inside the value."""
    children = list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list) else []
    return [each for each in children if isinstance(each, dict | list)]


def _shape_problem(schema: Mapping[str, JsonValue]) -> str:
    """Returns the problem with the top level of the schema, or an empty string."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("type") != "object":
        return "its 'type' is not 'object'"
    if not isinstance(properties, dict) or not all(isinstance(each, dict | bool) for each in properties.values()):
        return "'properties' is no object of schemas"
    if not isinstance(required, list) or not all(isinstance(each, str) for each in required):
        return "'required' is no list of names"
    return ""
