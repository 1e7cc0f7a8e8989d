"""Reads stored events for transcripts: a long log is read at the first turn of a process, so each event costs little.

It reads texts, tool calls and results itself. Every other event is validated, as when the log is read as a whole.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from pydantic_core import from_json

from turnwise.facts.branch import NO_BRANCH, Branch
from turnwise.facts.content import Content, Part, TextPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import NO_ACTIONS, Actions, End, Event
from turnwise.facts.selections import Selection
from turnwise.stores.sql.rows import EventRow

NOT_SHOWN = frozenset({"steps", "usage", "state_delta", "artifact_versions", "state_before", "positions", "finished"})
"""The actions that no transcript shows. They are left out."""
_ROLES = ("user", "agent")


class _UnusualError(Exception):
    """Only validation can read the event, or refuse it."""


def transcript_events(rows: Sequence[EventRow]) -> list[Event]:
    """Returns the events of these rows, without actions that no transcript shows."""
    try:
        bodies = from_json(f"[{','.join([row.body for row in rows])}]")
    except ValueError:
        return [row.event() for row in rows]
    return [_event(row, body) for row, body in zip(rows, bodies, strict=True)]


def _event(row: EventRow, body: Any) -> Event:
    try:
        return _light_event(row, body)
    except (_UnusualError, AttributeError, LookupError, TypeError, ValueError):  # a body of another shape
        return row.event()


def _light_event(row: EventRow, body: dict[str, Any]) -> Event:
    """Builds an event from its row without validation. Raises _UnusualError for fields that it does not know."""
    content, actions = body.pop("content", None), body.pop("actions", None)
    values = {
        "id": row.event_id,
        "author": row.author,
        "invocation_id": row.invocation_id,
        "created_at": datetime.fromisoformat(body.pop("created_at")),
        "content": None if content is None else _content(content),
        "actions": NO_ACTIONS if actions is None else _actions(actions),
        "error": None,
        "branch": _branch(body.pop("branch")) if "branch" in body else NO_BRANCH,
        "within": "",
        "scope": (),
        "attempt": 1,
        "partial": False,
        "offset": None,
        "sequence": row.sequence,
    }
    if body:
        values["scope"] = _scope(body.pop("scope"))
    if body:
        raise _UnusualError
    return Event.of_valid(values, _EVENT)


def _scope(labels: list[Any]) -> tuple[str, ...]:
    if type(labels) is not list or not all(type(label) is str for label in labels):
        raise _UnusualError
    return tuple(labels)


_branch = lru_cache(1_000)(Branch)


# --- the content


def _content(data: dict[str, Any]) -> Content:
    role = data["role"]
    if len(data) != 2 or role not in _ROLES:
        raise _UnusualError
    return Content.of_valid({"role": role, "parts": tuple([_part(part) for part in data["parts"]])}, _CONTENT)


def _part(data: dict[str, Any]) -> Part:
    """Builds a content part without validation. Raises _UnusualError for unusual ones."""
    if len(data) == 2 and data["kind"] == "text" and type(text := data["text"]) is str:
        return TextPart.of_valid({"kind": "text", "text": text, "seal": None}, _TEXT)
    if data.keys() == _CALL and data["kind"] == "tool_call":
        _check(data, call_id=str, tool=str, arguments=dict)
        return ToolCallPart.of_valid({"raw": None, "private": False, "offered": False, "seal": None, **data}, _CALL)
    if data.keys() == _RESULT and data["kind"] == "tool_result":
        _check(data, call_id=str, tool=str, failed=bool)
        return ToolResultPart.of_valid(data, _RESULT)
    raise _UnusualError


def _check(data: dict[str, Any], **types: type) -> None:
    for name, expected in types.items():
        if type(data[name]) is not expected:
            raise _UnusualError


# --- the actions


def _actions(data: dict[str, Any]) -> Actions:
    """Builds the actions that transcripts need. Raises _UnusualError for others."""
    kept = _kept(tuple(data))
    if not kept:
        return NO_ACTIONS
    if kept == ("selection",):
        return _selected(**data["selection"])
    if kept == ("end",):
        return _ended(**data["end"])
    raise _UnusualError


@lru_cache(1_000)
def _kept(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in NOT_SHOWN)


@lru_cache(1_000)
def _selected(**selection: Any) -> Actions:
    """Returns the actions with that selection. Unknown fields raise ValidationError, and so do wrong types."""
    return Actions(selection=Selection(**selection))


@lru_cache(1_000)
def _ended(**end: Any) -> Actions:
    return Actions(end=End(**end))


# The fields that were given, which all facts of a class share.
_EVENT = {"id", "author", "invocation_id", "created_at", "content", "actions", "branch", "scope", "sequence"}
_CONTENT, _TEXT = {"role", "parts"}, {"kind", "text"}
_CALL, _RESULT = {"kind", "call_id", "tool", "arguments"}, {"kind", "call_id", "tool", "result", "failed"}
