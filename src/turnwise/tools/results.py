"""What a function gave, as the JSON value that a model is told."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_jsonable_python

from turnwise.facts.content import Content
from turnwise.facts.errors import ToolFailed

_FIX = "Return text, numbers, lists, dicts, dates, enums, dataclasses or pydantic models; save bytes as an artifact."


def json_value(value: Any, tool: str) -> JsonValue:
    """The value as JSON: models and dataclasses become objects, dates and enums what JSON has for them, Content its text.

    ToolFailed for what has no such form: bytes, numbers that are not finite, objects of other classes.
    """
    if isinstance(value, Content):
        return value.text
    try:
        plain = to_jsonable_python(value)
        json.dumps(plain, allow_nan=False)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ToolFailed(f"{tool} gave a {type(value).__name__} that JSON has no form for: {error}.", fix=_FIX) from None
    if _holds_bytes(value):
        raise ToolFailed(f"{tool} gave bytes, which JSON has no form for.", fix=_FIX)
    result: JsonValue = plain
    return result


def _holds_bytes(value: Any) -> bool:
    """Bytes in plain containers; a model says itself how its bytes are written."""
    if isinstance(value, bytes | bytearray | memoryview):
        return True
    if isinstance(value, Mapping):
        return any(map(_holds_bytes, value.values()))
    return isinstance(value, list | tuple | set | frozenset) and any(map(_holds_bytes, value))
