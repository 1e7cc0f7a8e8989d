"""Reads stored events for transcripts: a long log is read at the first turn of a process, so each event costs little.

It reads texts, tool calls and results itself. Every other event is validated, as when the log is read as a whole.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from pydantic_core import from_json

from turnwise.facts.content import Content, Part, TextPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import NO_ACTIONS, NO_BRANCH, Actions, Branch, End, Event
from turnwise.facts.selections import Selection
from turnwise.stores.sql.rows import EventRow

NOT_SHOWN = frozenset({"steps", "usage", "state_delta", "artifact_versions", "state_before", "positions", "finished"})
"""The actions that no transcript shows. They are left out."""
_ROLES = ("user", "agent")
_REST_CHARACTERS = 300
"""A longer rest of a body is not kept for the next event with the same one."""
# An event that says one text, as `event_text` writes it: the time, the role, the text and the rest. Of the rest, the steps and
# the usage of a model's answer are left out: they differ from answer to answer, and no transcript shows them.
_STEP = r'\{"key":"[^"\\]*","says":true,"state_delta":\{\},"artifact_versions":\{\}\}'
_USAGE = r'"usage":\{(?:[^{}"]|"[^"\\]*")*+\}'
_SINGLE_TEXT = re.compile(
    r'\{"created_at":"([^"\\]*)","content":\{"role":"(user|agent)",'
    r'"parts":\[\{"kind":"text","text":"((?:[^"\\]++|\\.)*+)"\}\]\}'
    rf'(,"actions":\{{(?:"steps":\[{_STEP}\],?)?(?:{_USAGE},?)?)?(.*)',
    re.DOTALL,
)


class _UnusualError(Exception):
    """Only validation can read the event, or refuse it."""


def transcript_events(rows: Sequence[EventRow]) -> list[Event]:
    """Returns the events of these rows, without actions that no transcript shows."""
    drafts = [_single_text_values(row) for row in rows]
    usual = iter(_single_text_events([draft for draft in drafts if draft is not None]))
    others = iter(_other_events([row for row, draft in zip(rows, drafts, strict=True) if draft is None]))
    return [next(others if draft is None else usual) for draft in drafts]


def _single_text_values(row: EventRow) -> dict[str, Any] | None:
    """Returns the values of an event that is a single text; None for any other event.

    The content is still a dict, which `_single_text_events` turns into facts.
    """
    match = _SINGLE_TEXT.fullmatch(row.body)
    if match is None:
        return None
    created_at, role, text, has_actions, rest = match.groups()
    if len(rest) > _REST_CHARACTERS:
        return None
    try:
        if "\\" in text:
            text = from_json(f'"{text}"')
        actions, branch, scope = _actions_branch_scope(rest, has_actions=has_actions is not None)
        time = datetime.fromisoformat(created_at)
    except (_UnusualError, AttributeError, LookupError, TypeError, ValueError):
        return None
    content = {"role": role, "parts": {"kind": "text", "text": text, "seal": None}}
    return _values(row, time, content, actions, branch, scope)


def _single_text_events(drafts: list[dict[str, Any]]) -> list[Event]:
    """Returns the events of these values. All facts of a class are made at once: a long log has thousands."""
    contents = [draft["content"] for draft in drafts]
    texts = TextPart.many_of_valid([content["parts"] for content in contents], _TEXT)
    for content, text in zip(contents, texts, strict=True):
        content["parts"] = (text,)
    for draft, content in zip(drafts, Content.many_of_valid(contents, _CONTENT), strict=True):
        draft["content"] = content
    return Event.many_of_valid(drafts, _EVENT)


@lru_cache(1_000)
def _actions_branch_scope(text: str, *, has_actions: bool) -> tuple[Actions, Branch, tuple[str, ...]]:
    """Returns what follows the content in a body: the actions, the branch and the scope. Raises _UnusualError for others.

    Many events have the same rest.
    """
    fields = from_json(f'{{"actions":{{{text}' if has_actions else f"{{{text.removeprefix(',')}")
    actions = _actions(fields.pop("actions")) if has_actions else NO_ACTIONS
    branch = _branch(fields.pop("branch")) if "branch" in fields else NO_BRANCH
    scope = _scope(fields.pop("scope")) if "scope" in fields else ()
    if fields:
        raise _UnusualError
    return actions, branch, scope


def _other_events(rows: Sequence[EventRow]) -> list[Event]:
    """Returns the events of these rows, whatever they hold."""
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
    values = _values(
        row,
        datetime.fromisoformat(body.pop("created_at")),
        None if content is None else _content(content),
        NO_ACTIONS if actions is None else _actions(actions),
        _branch(body.pop("branch")) if "branch" in body else NO_BRANCH,
        _scope(body.pop("scope")) if "scope" in body else (),
    )
    if body:
        raise _UnusualError
    return Event.of_valid(values, _EVENT)


def _values(
    row: EventRow, created_at: datetime, content: Any, actions: Actions, branch: Branch, scope: tuple[str, ...]
) -> dict[str, Any]:
    """Returns the values of all fields of an event; those that are not given have their defaults."""
    return {
        "id": row.event_id,
        "author": row.author,
        "invocation_id": row.invocation_id,
        "created_at": created_at,
        "content": content,
        "actions": actions,
        "error": None,
        "branch": branch,
        "within": "",
        "scope": scope,
        "attempt": 1,
        "partial": False,
        "offset": None,
        "sequence": row.sequence,
    }


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
