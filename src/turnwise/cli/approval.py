"""Approval of tool calls at the terminal: finds the question in an event, and reads the typed answer."""

import json
import re

from turnwise.agents.approval import CONFIRM
from turnwise.facts.content import Content, ToolResultPart
from turnwise.facts.events import Event
from turnwise.facts.sessions import SessionKey
from turnwise.facts.waits import Wait, wait_opened_by

_YES = re.compile(r"\s*y(?:es)?\s*[.!]?\s*", re.IGNORECASE)
_NO = re.compile(r"\s*no?(?:[\s.,:;!-]+(?P<reason>.*))?\s*", re.IGNORECASE | re.DOTALL)


def approval_question(event: Event) -> Wait | None:
    """Returns the approval question that the event asks; None if it asks none."""
    wait = wait_opened_by(event)
    return wait if wait is not None and wait.kind == "confirmation" else None


def approval_answer(question: Wait, line: str) -> Content | None:
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


def approval_line(question: Wait, key: SessionKey) -> str:
    """Returns an input line of `turnwise run` that approves the call."""
    part = {"kind": "tool_result", "call_id": question.id, "result": {"approved": True}}
    return json.dumps({"user": key.user, "session": key.id, "message": {"parts": [part]}}, ensure_ascii=False)


def _result(question: Wait, result: dict[str, bool | str]) -> Content:
    return Content(role="user", parts=(ToolResultPart(call_id=question.id, tool=CONFIRM, result=dict(result)),))
