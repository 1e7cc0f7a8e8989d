"""Validates messages, contexts and runner arguments before anything is stored (behaviour A25)."""

import json
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from turnwise.facts.content import (
    DEEPEST,
    BlobPart,
    Content,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    holds_deep,
    is_deep,
    text_content,
)
from turnwise.facts.errors import ConfigError, EmptyMessage, ForbiddenPart, MessageError, MessageTooLarge
from turnwise.facts.fact import Fact
from turnwise.facts.ids import ID_CHARACTERS, is_storable_id
from turnwise.facts.limits import Limits, ProcessConfig, RunConfig
from turnwise.facts.messages import MessageContext, OfferedTool
from turnwise.facts.sessions import TEMP_PREFIX
from turnwise.selection.policy import PolicySpec
from turnwise.tools.names import NAME_CHARACTERS, is_tool_name, reserved_for


def checked_message(message: str | Content, limits: Limits) -> Content:
    """Returns the message as a copied content in the user's role, without the data of providers.

    Raises:
        EmptyMessage: The message has no content.
        ForbiddenPart: The message holds a tool call.
        MessageTooLarge: Text and data, a blob, the number of parts, or the nesting exceeds its limit.
        MessageError: The value is no message, is not valid UTF-8, or holds a result that is not JSON.
    """
    content = text_content(message) if isinstance(message, str) else message
    if not isinstance(content, Content):
        raise MessageError(f"A {type(message).__name__} is no message.", fix="Send a str or Content.")
    if not any(_has_content(part) for part in content.parts):
        raise EmptyMessage("The message is empty.", fix="Send text, a file, data or a tool result.")
    if content.tool_calls:
        raise ForbiddenPart(
            f"The message holds a call of the tool {content.tool_calls[0].tool!r}; only agents call tools.",
            fix="Send a tool result, or text.",
        )
    if len(content.parts) > limits.parts:
        raise MessageTooLarge(
            f"The message has {len(content.parts)} parts, {limits.parts} are allowed.", fix="Raise limits.parts."
        )
    blobs = [part for part in content.parts if isinstance(part, BlobPart)]
    for index, blob in enumerate(blobs):
        if len(blob.data) > limits.blob_bytes:
            raise MessageTooLarge(
                f"Blob {index} of the message has {len(blob.data):,} bytes, {limits.blob_bytes:,} are allowed.",
                fix="Raise limits.blob_bytes.",
            )
    if holds_deep(content):
        raise _too_deep("message")
    try:
        size = sum(_size(part) for part in content.parts)
        if content.model_extra:
            size += json_size(content.with_parts(()))
    except ValueError as error:
        raise _unwritable("message", error) from None
    _check_size("message", "text and data", size, limits)
    for result in content.tool_results:
        _check_result(result)
    return content.replace(role="user", parts=tuple(_without_seal(part) for part in content.parts))


def _without_seal(part: Part) -> Part:
    """Returns the part without a provider's data, which only an agent's own model may set."""
    if isinstance(part, TextPart | ThinkingPart | ToolCallPart) and part.seal is not None:
        return part.replace(seal=None)
    return part


def checked_context(context: MessageContext, limits: Limits) -> MessageContext:
    """Returns the context after validating it; it is stored with its message.

    Raises MessageTooLarge, or MessageError for invalid UTF-8, tools that cannot be offered, or invalid state keys.
    """
    if not isinstance(context, MessageContext):
        raise MessageError(f"The message's context is a {type(context).__name__}.", fix="Pass MessageContext(…).")
    if is_deep(context.attributes) or is_deep(context.model_extra):
        raise _too_deep("message's context")
    check_delta(context.state, limits)
    try:
        size = json_size(context)
    except ValueError as error:
        raise _unwritable("message's context", error) from None
    _check_size("message's context", "JSON", size, limits)
    check_offers(context.tools, limits)
    return context


def check_delta(delta: Mapping[str, JsonValue], limits: Limits) -> None:
    """Validates the form of a caller's state delta. Raises MessageError, MessageTooLarge."""
    for key, value in delta.items():
        if not is_storable_id(key):
            problem = "A key of the state is empty, overlong, or cannot be stored."
            raise MessageError(problem, fix=f"Use 1 to {ID_CHARACTERS} characters without NUL or unpaired surrogates.")
        if key.startswith(TEMP_PREFIX):
            raise MessageError(
                f"The key {key!r} of the state would not be stored.", fix="Send it as one of the context's attributes."
            )
        what = f"value of {key!r} in the state"
        if is_deep(value):
            raise _too_deep(what)
        try:
            size = len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
        except ValueError as error:
            raise _unwritable(what, error) from None
        if size > limits.state_bytes:
            raise MessageTooLarge(
                f"The {what} has {size:,} bytes, {limits.state_bytes:,} are allowed.",
                fix="Keep it as an artifact, or raise limits.state_bytes.",
            )


def checked_id(what: str, value: str) -> str:
    """Returns the id of a user, session or message. Raises MessageError if it is empty, too long, or not storable."""
    if not isinstance(value, str):
        raise MessageError(f"The {what} id is a {type(value).__name__}.", fix="Pass a text.")
    if not is_storable_id(value):
        raise MessageError(
            f"The {what} id has {len(value)} characters, or one that cannot be stored.",
            fix=f"Use 1 to {ID_CHARACTERS} characters without NUL or unpaired surrogates.",
        )
    return value


def _check_size(what: str, of: str, size: int, limits: Limits) -> None:
    if size > limits.message_bytes:
        raise MessageTooLarge(
            f"The {what} has {size:,} bytes of {of}, {limits.message_bytes:,} are allowed.",
            fix="Raise limits.message_bytes, or send it as a file.",
        )


def _too_deep(what: str) -> MessageTooLarge:
    """Returns the error for values nested so deeply that the stored session could not be read again."""
    return MessageTooLarge(f"The {what} has values that are nested more than {DEEPEST} levels deep.", fix="Flatten them.")


def _check_result(part: ToolResultPart) -> None:
    """Rejects NaN and infinities: the log can hold them, but no model can receive them."""
    try:
        json.dumps(part.result, allow_nan=False)
    except ValueError as error:
        raise MessageError(
            f"The result of the call {part.call_id[:ID_CHARACTERS]!r} is no JSON value: {error}.",
            fix="Send numbers that JSON can write; null where there is none.",
        ) from None


def _unwritable(what: str, error: ValueError) -> MessageError:
    return MessageError(f"The {what} cannot be stored: {error}.", fix="Send text that UTF-8 can write.")


def _has_content(part: object) -> bool:
    return bool(part.text.strip()) if isinstance(part, TextPart) else True


def _size(part: Part) -> int:
    if isinstance(part, TextPart) and not part.model_extra:
        return len(part.text.encode())
    if isinstance(part, BlobPart):
        part = part.replace(data=b"")
    return json_size(part)


def json_size(fact: Fact) -> int:
    """Returns the size of a fact as JSON, in bytes. Raises ValueError for text that UTF-8 cannot write."""
    return len(fact.model_dump_json().encode())


def check_arguments(
    *, app: object, policy: object, custom_selectors: object, keep: object, config: object, process: object
) -> None:
    """Raises ConfigError for the first argument of a runner with a wrong type."""
    if not isinstance(app, str) or not is_storable_id(app):
        raise _argument_error("app", app, f"a name of 1 to {ID_CHARACTERS} characters")
    if not isinstance(policy, str | PolicySpec):
        raise _argument_error("policy", policy, 'a name such as "default", or PolicySpec(…)')
    if custom_selectors is not None and not isinstance(custom_selectors, Mapping):
        raise _argument_error("custom_selectors", custom_selectors, "a dict from names to functions that make a selector")
    if keep is not None and not isinstance(keep, str | Path):
        raise _argument_error("keep", keep, "the path of a folder")
    check_config(config)
    if process is not None and not isinstance(process, ProcessConfig):
        raise _argument_error("process", process, "ProcessConfig(…)")


def check_config(config: object) -> None:
    """Raises ConfigError if the value is not a RunConfig."""
    if config is not None and not isinstance(config, RunConfig):
        raise _argument_error("config", config, "RunConfig(…)")


def checked_parts(name: str, value: Any, methods: Sequence[str], expected: str) -> tuple[Any, ...]:
    """Returns the values as a tuple. Raises ConfigError for the first one that lacks one of the methods."""
    if isinstance(value, str | type) or not isinstance(value, Sequence):
        raise _argument_error(name, value, f"a list of {expected}")
    for place, each in enumerate(value, 1):
        missing = _missing(each, methods)
        if missing is not None:
            raise _argument_error(f"{name}[{place - 1}]", each, f"{expected}: it has no method `{missing}`")
    return tuple(value)


def check_part(name: str, value: Any, methods: Sequence[str], expected: str) -> None:
    """Raises ConfigError if the value is set and lacks one of the methods."""
    if value is not None and _missing(value, methods) is not None:
        raise _argument_error(name, value, expected)


def _missing(value: Any, methods: Sequence[str]) -> str | None:
    if isinstance(value, type | str | bytes):  # str has an `encode` method, too
        return methods[0]
    return next((each for each in methods if not callable(getattr(value, each, None))), None)


def _argument_error(name: str, value: object, expected: str) -> ConfigError:
    shown = f"the class {value.__name__}" if isinstance(value, type) else f"{type(value).__name__} {reprlib.repr(value)}"
    return ConfigError(f"A runner cannot use this as `{name}`: {shown}.", fix=f"Pass {expected}.")


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
