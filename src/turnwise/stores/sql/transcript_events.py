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
    drafts, others = list[dict[str, Any]](), list[Event | None]()
    for row, body in zip(rows, bodies, strict=True):
        try:
            drafts.append(_draft(row, body))
            others.append(None)
        except (_UnusualError, AttributeError, LookupError, TypeError, ValueError):  # a body of another shape
            others.append(row.event())
    usual = iter(_made(drafts))
    return [next(usual) if other is None else other for other in others]


def _draft(row: EventRow, body: dict[str, Any]) -> dict[str, Any]:
    """Returns the values of an event. Raises _UnusualError for fields that it does not know.

    A content with one text is still a dictionary.
    """
    actions = body.pop("actions", None)
    values = {
        "id": row.event_id,
        "author": row.author,
        "invocation_id": row.invocation_id,
        "created_at": datetime.fromisoformat(body.pop("created_at")),
        "content": _content(body.pop("content")) if "content" in body else None,
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
    return values


def _made(drafts: list[dict[str, Any]]) -> list[Event]:
    """Returns the events of these values. All facts of a class are made at once: a long log has thousands."""
    contents = [content for draft in drafts if type(content := draft["content"]) is dict]
    texts = TextPart.many_of_valid([content["parts"] for content in contents], _TEXT)
    for content, text in zip(contents, texts, strict=True):
        content["parts"] = (text,)
    made = iter(Content.many_of_valid(contents, _CONTENT))
    for draft in drafts:
        if type(draft["content"]) is dict:
            draft["content"] = next(made)
    return Event.many_of_valid(drafts, _EVENT)


def _scope(labels: list[Any]) -> tuple[str, ...]:
    if type(labels) is not list or not all(type(label) is str for label in labels):
        raise _UnusualError
    return tuple(labels)


_branch = lru_cache(1_000)(Branch)


# --- the content


def _content(data: dict[str, Any] | None) -> Content | dict[str, Any] | None:
    """Returns the content; of a single text, which is the usual case, its values, with those of the text as `parts`."""
    if data is None:
        return None
    parts = data["parts"]
    if len(data) != 2 or data["role"] not in _ROLES:
        raise _UnusualError
    if len(parts) == 1 and len(part := parts[0]) == 2 and part["kind"] == "text" and type(part["text"]) is str:
        part["seal"] = None
        data["parts"] = part
        return data
    return Content.of_valid({"role": data["role"], "parts": tuple([_part(part) for part in parts])}, _CONTENT)


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
