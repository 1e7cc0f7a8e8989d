"""JSON values as the protocol's messages hold them, and back. Pure."""

import math
from typing import Any

from a2a.types import ListTasksResponse, Part
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError, SerializeToJsonError
from google.protobuf.struct_pb2 import Struct, Value
from pydantic import JsonValue
from pydantic_core import to_json

from turnwise.facts.depth import is_deep

JSON_TYPE = "application/json"
DEEPEST = 30
"""How deeply a value may be nested to be sent as one: readers stop at a depth of 100; each level is two or three for them."""
EXACT = 2**53
"""Numbers are floating-point ones there: from here on integers are not exact."""


def message_json(held: Any) -> Any:
    """The message as JSON, numbers without a fraction as integers. ValueError for what is no JSON."""
    try:
        return _with_integers(MessageToDict(held))
    except SerializeToJsonError:
        raise ValueError("It holds what is no JSON.") from None


def task_page_json(held: ListTasksResponse) -> Any:
    """A page of tasks as JSON: of the page itself every field is there, as the protocol wants."""
    page = {"nextPageToken": held.next_page_token, "pageSize": held.page_size, "totalSize": held.total_size}
    return {"tasks": [message_json(task) for task in held.tasks], **page}


def json_object(values: dict[str, Any]) -> Struct:
    """These values, which are JSON, as an object."""
    held: Struct = ParseDict(values, Struct())
    return held


def data_part(value: JsonValue, name: str = "") -> Part:
    """The value as a part; as JSON in a text, if the protocol cannot hold it as it is."""
    if not is_deep(value, DEEPEST) and _is_exact(value):
        try:
            return Part(data=ParseDict(value, Value()), media_type=JSON_TYPE, filename=name)
        except (ParseError, ValueError, OverflowError):
            pass
    return Part(text=to_json(value, inf_nan_mode="null").decode(), media_type=JSON_TYPE, filename=name)


def _with_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_integers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_integers(each) for each in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < EXACT else value
    return value


def _is_exact(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return all(map(_is_exact, value.values()))
    if isinstance(value, list):
        return all(map(_is_exact, value))
    return math.isfinite(value) if isinstance(value, float) else not isinstance(value, int) or abs(value) < EXACT
