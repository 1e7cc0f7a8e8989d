"""Events of the wire: what they are called, and how they are written."""

import json
from collections.abc import Iterator
from typing import Any

from fastapi.sse import format_sse_event
from pydantic_core import PydanticSerializationError, to_json

VERSION = "1.0"
"""Of the protocol."""

Wire = dict[str, Any]
"""An event, or a message in one, with the names of the wire; what has no value is left out."""
Wires = Iterator[Wire]


def event(type_: str, **fields: Any) -> Wire:
    """That event. A field that is None is not there: the protocol does not write null for it."""
    return {"type": type_, **{name: value for name, value in fields.items() if value is not None}}


def custom(name: str, value: Any, tag: str | None = None) -> Wire:
    """An event of ours, which the protocol carries and does not know."""
    return event("CUSTOM", name=f"turnwise.{name}", value=value, subagentRunId=tag)


def written(wire: Wire) -> bytes:
    """The event as a server-sent one."""
    try:
        return format_sse_event(data_str=to_json(wire, inf_nan_mode="null").decode())
    except PydanticSerializationError:  # half a character, in what the client sent and gets back
        return format_sse_event(data_str=json.dumps(wire))
