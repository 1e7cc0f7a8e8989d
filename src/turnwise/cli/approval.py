"""A person's leave for a tool call: the question in an event, and the answer in what somebody types."""

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
    """Whether a tool may be called: the id of the call by which it is asked, who asks, and in which words."""

    id: str
    agent: str
    text: str


def approval_question(event: Event) -> Question | None:
    """The question that this event asks; None when it asks none."""
    waits = event.actions.awaits
    for part in event.content.tool_calls if event.content and waits else ():
        if part.tool == CONFIRM and waits and part.call_id == waits.id:
            return Question(part.call_id, event.author, event.text)
    return None


def answer_to(question: Question, line: str) -> Content | None:
    """The message that answers it, if the line says y or n (what stands behind n is the reason); None for anything else."""
    if _YES.fullmatch(line):
        return _result(question, {"approved": True})
    if said := _NO.fullmatch(line):
        reason = (said["reason"] or "").strip()
        return _result(question, {"approved": False, **({"reason": reason} if reason else {})})
    return None


def approval_line(question: Question, key: SessionKey) -> str:
    """A line for `turnwise run` that says yes."""
    part = {"kind": "tool_result", "call_id": question.id, "result": {"approved": True}}
    return json.dumps({"user": key.user, "session": key.id, "message": {"parts": [part]}}, ensure_ascii=False)


def _result(question: Question, result: dict[str, bool | str]) -> Content:
    return Content(role="user", parts=(ToolResultPart(call_id=question.id, tool=CONFIRM, result=dict(result)),))
