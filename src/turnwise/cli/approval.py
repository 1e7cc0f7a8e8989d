"""Approval of tool calls at the terminal: finds the question in an event, and reads the typed answer."""

import json
import re
from typing import NamedTuple

from turnwise.agents.approval import CONFIRM
from turnwise.facts.content import Content, ToolResultPart
from turnwise.facts.events import Event
from turnwise.facts.sessions import SessionKey

_YES = re.compile(r"\s*y(?:es)?\s*[.!]?\s*", re.IGNORECASE)
_NO = re.compile(r"\s*no?(?:[\s.,:;!-]+(?P<reason>.*))?\s*", re.IGNORECASE | re.DOTALL)


class Question(NamedTuple):
    """A question whether a tool may be called."""

    id: str
    """Id of the tool call that asks the question."""
    agent: str
    """The agent that asks."""
    text: str


def approval_question(event: Event) -> Question | None:
    """Returns the approval question that the event asks; None if it asks none."""
    waits = event.actions.awaits
    for part in event.content.tool_calls if event.content and waits else ():
        if part.tool == CONFIRM and waits and part.call_id == waits.id:
            return Question(part.call_id, event.author, event.text)
    return None


def approval_answer(question: Question, line: str) -> Content | None:
    """Returns the message that answers the question.

    Args:
        line: `y`, or `n` with an optional reason after it.

    Returns:
        None if the line is anything else.
    """
    if _YES.fullmatch(line):
        return _result(question, {"approved": True})
    if said := _NO.fullmatch(line):
        reason = (said["reason"] or "").strip()
        return _result(question, {"approved": False, **({"reason": reason} if reason else {})})
    return None


def approval_line(question: Question, key: SessionKey) -> str:
    """Returns an input line of `turnwise run` that approves the call."""
    part = {"kind": "tool_result", "call_id": question.id, "result": {"approved": True}}
    return json.dumps({"user": key.user, "session": key.id, "message": {"parts": [part]}}, ensure_ascii=False)


def _result(question: Question, result: dict[str, bool | str]) -> Content:
    return Content(role="user", parts=(ToolResultPart(call_id=question.id, tool=CONFIRM, result=dict(result)),))
