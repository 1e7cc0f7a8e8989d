"""The request body (RunAgentInput with limits), the form of events on the wire, and the state that the front end shares.

Unknown roles, parts and fields of newer clients are ignored, as the protocol requires.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from ag_ui.core import Message, ResumeEntry, RunAgentInput
from fastapi.sse import format_sse_event
from pydantic import Field, JsonValue, model_validator
from pydantic_core import PydanticSerializationError, to_json
from starlette.responses import Response

from turnwise.facts.content import DEEPEST, is_deep
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.sessions import APP_PREFIX
from turnwise.gateway.problems import Problem
from turnwise.gateway.shared.exchanges import MOST_MESSAGES

MOST_ENTRIES = 1_000
"""Maximum number of answers to interrupts."""
MOST_DEEP = 2 * DEEPEST
"""Maximum nesting of a request, because free-form values in it are serialized again."""
ROLES = frozenset({"developer", "system", "assistant", "user", "tool", "activity", "reasoning"})
PARTS = frozenset({"text", "image", "audio", "video", "document"})
SOURCES = frozenset({"data", "url", "file"})
VERSION = "1.0"
"""The protocol version."""
Wire = dict[str, Any]
"""An event, or a message in one, with wire names. Fields without a value are absent."""
Wires = Iterator[Wire]


class RunBody(RunAgentInput):
    """The body of a run. An empty thread_id or run_id is generated."""

    thread_id: str = ""
    run_id: str = ""
    messages: Annotated[list[Message], Field(max_length=MOST_MESSAGES)]
    resume: Annotated[list[ResumeEntry], Field(max_length=MOST_ENTRIES)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _drop_unknown(cls, data: Any) -> Any:
        """Drops messages with unknown roles and unknown content parts before validation. Refuses deep nesting."""
        if is_deep(data, MOST_DEEP):
            raise ValueError(f"nested more than {MOST_DEEP} levels deep")
        messages = data.get("messages") if isinstance(data, dict) else None
        if not isinstance(messages, list):
            return data
        return {**data, "messages": [_with_known_parts(message) for message in messages if _is_known(message, "role", ROLES)]}


def _with_known_parts(message: Any) -> Any:
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return message
    return {**message, "content": [part for part in content if _is_known(part, "type", PARTS) and _has_known_source(part)]}


def _has_known_source(part: Any) -> bool:
    return not isinstance(part, dict) or _is_known(part.get("source"), "type", SOURCES)


def _is_known(value: Any, name: str, known: frozenset[str]) -> bool:
    """Returns whether a value has a known type. Values without a type are kept, so that validation rejects them."""
    kind = value.get(name) if isinstance(value, dict) else None
    return not isinstance(kind, str) or kind in known


def event(type_: str, **fields: Any) -> Wire:
    """Builds an event. Fields that are None are left out, because the protocol does not write null."""
    return {"type": type_, **{name: value for name, value in fields.items() if value is not None}}


def custom_event(name: str, value: Any, tag: str | None = None) -> Wire:
    """Builds a CUSTOM event whose name begins with `turnwise.`."""
    return event("CUSTOM", name=f"turnwise.{name}", value=value, subagentRunId=tag)


def sse_event(wire: Wire) -> bytes:
    """Encodes an event as a server-sent event."""
    try:
        return format_sse_event(data_str=to_json(wire, inf_nan_mode="null").decode())
    except PydanticSerializationError:  # an unpaired surrogate in the client's own input
        return format_sse_event(data_str=json.dumps(wire))


def error_of(problem: Problem) -> Wire:
    """Returns the problem as a run's last event."""
    return event("RUN_ERROR", message=f"{problem.problem} {problem.fix}".rstrip(), code=problem.code)


def error_response(problem: Problem) -> Response:
    """Returns the response to a request that started no run."""
    # ASCII, because a quoted request may hold unpaired surrogates.
    body = json.dumps(error_of(problem), separators=(",", ":"))
    return Response(body, problem.status, dict(problem.headers), "application/json")


def changed_keys(state: object, shown: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Returns the keys that the front end changed: those that differ from the state it was shown.

    Absent keys stay unchanged, and null removes a key. App-wide keys are ignored, because a client sends back old values that
    others may have changed since.

    Raises:
        RequestInvalid: The state is not an object.
    """
    if state is None:
        return {}
    if not isinstance(state, dict):
        problem = "The state must be an object."
        raise RequestInvalid(problem, fix="Send an object, or no state.", where=("body", "state"))
    own = ((key, value) for key, value in state.items() if not key.startswith(APP_PREFIX))
    return {key: value for key, value in own if not _is_same(shown.get(key), value)}


def _is_same(one: object, other: object) -> bool:
    """Returns whether two JSON values are equal. In Python `True == 1`, so types are compared too."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


class ClientStateMirror:
    """The front end's copy of the state."""

    def __init__(self, state: Mapping[str, JsonValue]) -> None:
        self._state = dict(state)

    def snapshot(self) -> Wire:
        """Returns the snapshot event."""
        return event("STATE_SNAPSHOT", snapshot=dict(self._state))

    def apply(self, delta: Mapping[str, JsonValue], tag: str | None = None) -> Iterator[Wire]:
        """Applies a state delta and yields the change event, if anything differs. None removes a key."""
        operations: list[Wire] = []
        for key, value in delta.items():
            path = "/" + key.replace("~", "~0").replace("/", "~1")
            if value is None and key in self._state:
                del self._state[key]
                operations.append({"op": "remove", "path": path})
            elif value is not None and not _is_same(self._state.get(key), value):
                self._state[key] = value
                operations.append({"op": "add", "path": path, "value": value})
        if operations:
            yield event("STATE_DELTA", delta=operations, subagentRunId=tag)

    def replace(self, state: Mapping[str, JsonValue]) -> Iterator[Wire]:
        """Replaces the copy and yields a snapshot event, if it differs."""
        if not _is_same(self._state, dict(state)):
            self._state = dict(state)
            yield self.snapshot()
