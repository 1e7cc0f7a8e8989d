"""What became of a message, as a chat completion. Pure."""

from collections.abc import Sequence
from hashlib import sha256

from pydantic_core import to_json
from starlette.requests import Request

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import Event
from turnwise.facts.ids import Issuer, SystemIssuer
from turnwise.gateway.openai.chat.shape import (
    Behind,
    Call,
    ChatCompletion,
    Choice,
    Finish,
    Function,
    Head,
    PromptTokens,
    Said,
    Usage,
)
from turnwise.gateway.problems import Problem, request_id_of
from turnwise.gateway.shown import View
from turnwise.gateway.wire_errors import status_of
from turnwise.gateway.words import text_of, words_of
from turnwise.runner import Invocation, Result

GOOD = frozenset({"completed", "clarify", "loop", "limit:transfers"})
"""Ends of an answer that is whole. Of a loop, somebody answered who was told of it."""
LIMIT = "limit:"


def head_of(invocation: Invocation, model: str, issuer: Issuer | None = None) -> Head:
    """What is known of a completion before it is there."""
    named = sha256("\0".join((*invocation.session, invocation.message_id)).encode(errors="replace")).hexdigest()
    return Head(id=f"chatcmpl-{named[:28]}", created=int((issuer or SystemIssuer()).now().timestamp()), model=model)


def behind(invocation: Invocation, view: View, result: Result | None = None) -> Behind:
    """Where it is on record, and what of the decision its reader may see."""
    selection = view.selection(result.selection) if result and result.selection else None
    return Behind(
        session_id=invocation.session.id,
        message_id=invocation.message_id,
        invocation_id=(result.invocation_id if result else invocation.id) or None,
        agent=selection.agent if selection else None,
        reason=selection.reason if selection else None,
    )


def failure_of(result: Result, view: View, request: Request) -> Problem | None:
    """Why there is no answer; None when there is one. What is recorded as failed stays so: trying again is no use."""
    reason = result.end.reason if result.end else ""
    if result.end is None or reason in GOOD or (reason.startswith(LIMIT) and text_of(result.events)):
        return None
    code, text, status = reason, "The answer was cancelled.", 409
    if reason.startswith(LIMIT):
        text, status = f"The answer ran into the limit {reason.removeprefix(LIMIT)!r}.", 500
    elif reason != "cancelled":
        error = result.error
        code = error.code if error else reason
        text, status = view.error(error).message if error else "There is no answer.", max(status_of(code), 500)
    return Problem(status, code, text, "Send it as a new message to try again.", (), request_id_of(request), {})


def completion_of(
    head: Head,
    invocation: Invocation,
    result: Result,
    calls: Sequence[ToolCallPart],
    metadata: dict[str, str] | None,
    view: View,
) -> ChatCompletion:
    """The answer; `calls` are those whose results it awaits."""
    said = Said(content=text_of(result.events) or (None if calls else ""), tool_calls=[call_of(call) for call in calls] or None)
    known = head.model_copy(update={"system_fingerprint": fingerprint_of(result)})
    return ChatCompletion(
        **known.model_dump(),
        choices=[Choice(message=said, finish_reason=finish_of(result, calls))],
        usage=usage_of(result.events),
        metadata=metadata,
        turnwise=behind(invocation, view, result),
    )


def fingerprint_of(result: Result) -> str | None:
    """The policy that decided who answers."""
    return result.selection.fingerprint or None if result.selection else None


def finish_of(result: Result, calls: Sequence[ToolCallPart]) -> Finish:
    """Why the answer ends where it does."""
    last = next((event for event in reversed(result.events) if words_of(event)), None)
    if calls:
        return "tool_calls"
    if last is not None and last.actions.blocked_by:
        return "content_filter"
    reason = result.end.reason if result.end else ""
    if (last is not None and last.actions.cut_off) or (reason.startswith(LIMIT) and reason not in GOOD):
        return "length"
    return "stop"


def call_of(call: ToolCallPart) -> Call:
    """A call as the wire has it."""
    arguments = to_json(call.arguments).decode() if call.raw is None else call.raw
    return Call(id=call.call_id, function=Function(name=call.tool, arguments=arguments))


def usage_of(events: Sequence[Event]) -> Usage:
    """What models took for these events."""
    used = [event.actions.usage for event in events if event.actions.usage]
    asked, answered = sum(each.input_tokens for each in used), sum(each.output_tokens for each in used)
    return Usage(
        prompt_tokens=asked,
        completion_tokens=answered,
        total_tokens=asked + answered,
        prompt_tokens_details=PromptTokens(cached_tokens=sum(each.cached_tokens for each in used)),
    )
