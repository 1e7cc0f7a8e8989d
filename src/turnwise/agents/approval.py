"""A person's leave for a tool call: the question, and what the answer means (behaviour A42)."""

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
"""The tool of the question: a program that shows it to a person sends the result of that call."""
SHOWN_CHARACTERS = 4_000
"""How much of a value a person is shown; the question says how much more there is."""
NAME_CHARACTERS = 200
REASON_CHARACTERS = 200
YES = frozenset({"yes", "y", "true", "ok", "okay", "approve", "approved"})

_PLAIN = re.compile(rf"[A-Za-z_][A-Za-z0-9_.-]{{0,{NAME_CHARACTERS - 1}}}")

log = logging.getLogger("turnwise.agents")


class Answer(NamedTuple):
    """What the person said; `reason`: why not, may be empty."""

    approved: bool
    reason: str = ""


async def is_needed(tool: Tool, call: ToolCall) -> bool:
    """Whether a person has to agree to that call: also when the tool's own rule fails."""
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
    """The id of the question about that call."""
    return f"{call_id}-ok"


def question(context: AgentContext, call: ToolCallPart) -> Event:
    """The question about that call: in words for a person, and as a call for a program, which waits for its result."""
    blank = context.event()
    expires_at = blank.created_at + timedelta(seconds=context.config.limits.wait_seconds)
    asked = ToolCallPart(
        call_id=question_id(call.call_id),
        tool=CONFIRM,
        arguments={"tool": call.tool, "arguments": call.arguments, "call": call.call_id},
        private=True,
    )
    awaits = Await(id=asked.call_id, kind="tool_result", expires_at=expires_at)
    return blank.model_copy(
        update={
            "content": Content(parts=(TextPart(text=question_text(call.tool, call.arguments)), asked)),
            "actions": blank.actions.model_copy(update={"awaits": awaits}),
        }
    )


def question_text(tool: str, arguments: Mapping[str, JsonValue]) -> str:
    """The question as a person reads it: all that is agreed to, and of what is too long, how much is not shown.

    What a model wrote cannot pass for words of the question: values, and names that are no plain ones, are in quotes, and
    what is not seen, breaks lines or turns their direction is escaped.
    """
    listed = ", ".join(f"{_named(name)} = {_shown(value, SHOWN_CHARACTERS)}" for name, value in arguments.items())
    return f"May I call {_named(tool)} with {listed}?" if listed else f"May I call {_named(tool)}?"


def answer_of(result: ToolResultPart) -> Answer:
    """What that result means: `{"approved": true}`, perhaps with a `reason`, or true, "yes". Whatever is not plainly a yes
    is a no, and a text then is the reason.
    """
    given, reason = result.result, ""
    if isinstance(given, dict):
        reason = str(given.get("reason") or "")
        given = given.get("approved")
    if result.failed:
        return Answer(False, reason)
    if isinstance(given, str):
        approved = given.strip().strip(".!").casefold() in YES
        plain = given.strip().casefold() in {"no", "n", "false", ""}
        return Answer(approved, reason or ("" if approved or plain else given.strip()))
    return Answer(given is True, reason)


def refusal(answer: Answer) -> str:
    """What the model is told when the person did not agree."""
    because = f": {answer.reason[:REASON_CHARACTERS]}" if answer.reason else "."
    return f"It was not called, because the person who was asked did not agree{because}"


def _named(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else _shown(name, NAME_CHARACTERS)


def _shown(value: JsonValue, most: int) -> str:
    """The value as JSON in which every character is seen; behind one that is cut stands how much is missing."""
    text, quote = (value, '"') if isinstance(value, str) else (json.dumps(value, ensure_ascii=False), "")
    missing = len(text) - most
    begun = "".join(_visible(character, quote) for character in text[:most])
    return f"{quote}{begun}{quote}" + (f" … {missing:,} characters more" if missing > 0 else "")


def _visible(character: str, quote: str) -> str:
    escaped = not character.isprintable() or (quote and character in '"\\')
    return json.dumps(character)[1:-1] if escaped else character
