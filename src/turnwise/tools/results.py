"""Converts a function's return value to the JSON that the model reads."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_jsonable_python

from turnwise.facts.content import Content
from turnwise.facts.errors import ToolFailed

_FIX = "Return text, numbers, lists, dicts, dates, enums, dataclasses or pydantic models; save bytes as an artifact."


def json_value(value: Any, tool: str) -> JsonValue:
    """Returns the value as JSON.

    Models and dataclasses become objects, dates and enums their JSON form, and a Content its text.

    Raises:
        ToolFailed: The value has no JSON form, such as bytes, non-finite numbers or objects of other classes.
    """
    if isinstance(value, Content):
        return value.text
    try:
        plain = to_jsonable_python(value)
        json.dumps(plain, allow_nan=False)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ToolFailed(f"{tool} gave a {type(value).__name__} that JSON has no form for: {error}.", fix=_FIX) from None
    if _contains_bytes(value):
        raise ToolFailed(f"{tool} gave bytes, which JSON has no form for.", fix=_FIX)
    result: JsonValue = plain
    return result


def _contains_bytes(value: Any) -> bool:
    """Checks for bytes in plain containers. A pydantic model defines the form of its own bytes."""
    if isinstance(value, bytes | bytearray | memoryview):
        return True
    if isinstance(value, Mapping):
        return any(map(_contains_bytes, value.values()))
    return isinstance(value, list | tuple | set | frozenset) and any(map(_contains_bytes, value))
