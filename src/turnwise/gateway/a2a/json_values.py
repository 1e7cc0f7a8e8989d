"""Converts between JSON values and the protobuf messages of the protocol. Pure."""

import math
from typing import Any

from a2a.types import ListTasksResponse, Part
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError, SerializeToJsonError
from google.protobuf.struct_pb2 import Struct, Value
from pydantic import JsonValue
from pydantic_core import to_json

from turnwise.facts.content import is_deep

JSON_TYPE = "application/json"
DEEPEST = 30
"""Maximum nesting of a structured value. Readers stop at depth 100, and each level costs them two or three."""
EXACT = 2**53
"""Protobuf numbers are floats: integers from this magnitude on lose precision."""


def message_json(message: Any) -> Any:
    """Returns a protobuf message as JSON, with whole numbers as integers. Raises ValueError for NaN or infinity."""
    try:
        return _with_integers(MessageToDict(message))
    except SerializeToJsonError:
        raise ValueError("The value is not valid JSON.") from None


def task_page_json(page: ListTasksResponse) -> Any:
    """Returns a page of tasks as JSON, with every field of the page present, as the protocol requires."""
    fields = {"nextPageToken": page.next_page_token, "pageSize": page.page_size, "totalSize": page.total_size}
    return {"tasks": [message_json(task) for task in page.tasks], **fields}


def json_object(values: dict[str, Any]) -> Struct:
    """Returns JSON values as a protobuf Struct."""
    struct: Struct = ParseDict(values, Struct())
    return struct


def data_part(value: JsonValue, name: str = "") -> Part:
    """Returns a value as a data part, or as JSON text if protobuf cannot represent it exactly."""
    if not is_deep(value, DEEPEST) and _is_exact(value):
        try:
            return Part(data=ParseDict(value, Value()), media_type=JSON_TYPE, filename=name)
        except (ParseError, ValueError, OverflowError):
            pass
    return Part(text=to_json(value, inf_nan_mode="null").decode(), media_type=JSON_TYPE, filename=name)


def _with_integers(value: Any) -> Any:
    """Returns the value with whole floats as integers: protobuf has no integers in JSON values."""
    if isinstance(value, dict):
        return {key: _with_integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < EXACT else value
    return value


def _is_exact(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return all(map(_is_exact, value.values()))
    if isinstance(value, list):
        return all(map(_is_exact, value))
    return math.isfinite(value) if isinstance(value, float) else not isinstance(value, int) or abs(value) < EXACT
