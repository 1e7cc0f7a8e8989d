"""Human approval of tool calls: builds the question and reads the answer (behaviour A42)."""

import inspect
import json
import logging
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import Content, TextPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import Await, Event
from turnwise.ports.context import AgentContext
from turnwise.ports.tool import Tool, ToolCall
from turnwise.tools import names

CONFIRM = names.CONFIRM
"""The tool name of an approval question. A client that shows the question to a person sends the result of this call."""
SHOWN_CHARACTERS = 4_000
"""The most characters of one argument value that the question shows; it states how many more there are."""
NAME_CHARACTERS = 200
REASON_CHARACTERS = 200
YES = frozenset({"yes", "y", "true", "ok", "okay", "approve", "approved"})

_PLAIN = re.compile(rf"[A-Za-z_][A-Za-z0-9_.-]{{0,{NAME_CHARACTERS - 1}}}")

log = logging.getLogger("turnwise.agents")


class Answer(NamedTuple):
    """The decision of the person."""

    approved: bool
    reason: str = ""
    """The reason for a refusal; may be empty."""


async def is_needed(tool: Tool, call: ToolCall) -> bool:
    """Checks whether the call needs approval.

    A tool's own rule that raises counts as yes.
    """
    confirm = tool.rules.confirm
    if not callable(confirm):
        return confirm
    try:
        needed = confirm(call)
        return bool(await needed if inspect.isawaitable(needed) else needed)
    except Exception:
        log.exception("Tool %r could not say whether a call needs to be confirmed, so it does.", tool.spec.name)
        return True


def question_id(call_id: str) -> str:
    """Returns the id of the approval question for that call."""
    return f"{call_id}-ok"


def question(context: AgentContext, call: ToolCallPart) -> Event:
    """Builds the approval question for that call.

    The event holds the text that a person reads and a tool call that a program answers. The turn waits for the result
    of that tool call.
    """
    blank = context.event()
    expires_at = blank.created_at + timedelta(seconds=context.config.limits.wait_seconds)
    call_part = ToolCallPart(
        call_id=question_id(call.call_id),
        tool=CONFIRM,
        arguments={"tool": call.tool, "arguments": call.arguments, "call": call.call_id},
        private=True,
    )
    awaits = Await(id=call_part.call_id, kind="tool_result", expires_at=expires_at)
    return blank.replace(
        content=Content(parts=(TextPart(text=question_text(call.tool, call.arguments)), call_part)),
        actions=blank.actions.replace(awaits=awaits),
    )


def question_text(tool: str, arguments: Mapping[str, JsonValue]) -> str:
    """Returns the approval question as text: the tool and all its arguments.

    A value that is too long is cut, and the text states how many characters are missing. Text written by a model cannot
    imitate the question: values and unusual names are quoted. Characters that are invisible, break lines or change the
    text direction are escaped.
    """
    values = (f"{_quoted_name(name)} = {_quoted_value(value, SHOWN_CHARACTERS)}" for name, value in arguments.items())
    arguments_text = ", ".join(values)
    return f"May I call {_quoted_name(tool)} with {arguments_text}?" if arguments_text else f"May I call {_quoted_name(tool)}?"


def answer_of(result: ToolResultPart) -> Answer:
    """Reads the decision from the result of the question.

    Approval is `{"approved": true}`, true, or a word such as "yes". Everything else is a refusal, and other text
    becomes its reason. A dict may carry a `reason`. A failed result is a refusal.
    """
    value, reason = result.result, ""
    if isinstance(value, dict):
        reason = str(value.get("reason") or "")
        value = value.get("approved")
    if result.failed:
        return Answer(False, reason)
    if isinstance(value, str):
        approved = value.strip().strip(".!").casefold() in YES
        plain = value.strip().casefold() in {"no", "n", "false", ""}
        return Answer(approved, reason or ("" if approved or plain else value.strip()))
    return Answer(value is True, reason)


def refusal(answer: Answer) -> str:
    """Returns the tool result that the model reads after a refusal."""
    because = f": {answer.reason[:REASON_CHARACTERS]}" if answer.reason else "."
    return f"It was not called, because the person who was asked did not agree{because}"


def _quoted_name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else _quoted_value(name, NAME_CHARACTERS)


def _quoted_value(value: JsonValue, most: int) -> str:
    """Returns the value as JSON with every character visible. A value that is cut ends with the number of missing
    characters.
    """
    text, quote = (value, '"') if isinstance(value, str) else (json.dumps(value, ensure_ascii=False), "")
    missing = len(text) - most
    beginning = "".join(_visible(character, quote) for character in text[:most])
    return f"{quote}{beginning}{quote}" + (f" … {missing:,} characters more" if missing > 0 else "")


def _visible(character: str, quote: str) -> str:
    escaped = not character.isprintable() or (quote and character in '"\\')
    return json.dumps(character)[1:-1] if escaped else character
