"""The body of a request: RunAgentInput, as the protocol has it, with bounds.

What a newer client sends and nobody here knows (a role, a kind of part, a field) is left out, as the protocol wants it.
"""

import json
from collections.abc import Iterator
from typing import Annotated, Any

from ag_ui.core import Message, ResumeEntry, RunAgentInput
from fastapi.sse import format_sse_event
from pydantic import Field, model_validator
from pydantic_core import PydanticSerializationError, to_json

from turnwise.facts.depth import DEEPEST, is_deep
from turnwise.gateway.shared.exchanges import MOST_MESSAGES

MOST_ENTRIES = 1_000
"""Of the context, and of answers to interrupts."""
MOST_DEEP = 2 * DEEPEST
"""How many objects and lists may stand in each other in a request: much of it may be anything, and is written again."""
ROLES = frozenset({"developer", "system", "assistant", "user", "tool", "activity", "reasoning"})
PARTS = frozenset({"text", "image", "audio", "video", "document"})
SOURCES = frozenset({"data", "url", "file"})


class RunBody(RunAgentInput):
    """thread_id, run_id: empty = they are made here."""

    thread_id: str = ""
    run_id: str = ""
    messages: Annotated[list[Message], Field(max_length=MOST_MESSAGES)]
    resume: Annotated[list[ResumeEntry], Field(max_length=MOST_ENTRIES)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        if is_deep(given, MOST_DEEP):
            raise ValueError(f"nested more than {MOST_DEEP} levels deep")
        messages = given.get("messages") if isinstance(given, dict) else None
        if not isinstance(messages, list):
            return given
        return {**given, "messages": [_with_known_parts(each) for each in messages if _is_known(each, "role", ROLES)]}


def _with_known_parts(message: Any) -> Any:
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return message
    return {**message, "content": [part for part in content if _is_known(part, "type", PARTS) and _has_known_source(part)]}


def _has_known_source(part: Any) -> bool:
    return not isinstance(part, dict) or _is_known(part.get("source"), "type", SOURCES)


def _is_known(value: Any, name: str, known: frozenset[str]) -> bool:
    """Whether it is one of these; what is of no kind at all is left to be refused."""
    kind = value.get(name) if isinstance(value, dict) else None
    return not isinstance(kind, str) or kind in known


VERSION = "1.0"
"""Of the protocol."""

Wire = dict[str, Any]
"""An event, or a message in one, with the names of the wire; what has no value is left out."""
Wires = Iterator[Wire]


def event(type_: str, **fields: Any) -> Wire:
    """That event. A field that is None is not there: the protocol does not write null for it."""
    return {"type": type_, **{name: value for name, value in fields.items() if value is not None}}


def custom_event(name: str, value: Any, tag: str | None = None) -> Wire:
    """An event of ours, which the protocol carries and does not know."""
    return event("CUSTOM", name=f"turnwise.{name}", value=value, subagentRunId=tag)


def sse_event(wire: Wire) -> bytes:
    """The event as a server-sent one."""
    try:
        return format_sse_event(data_str=to_json(wire, inf_nan_mode="null").decode())
    except PydanticSerializationError:  # half a character, in what the client sent and gets back
        return format_sse_event(data_str=json.dumps(wire))
