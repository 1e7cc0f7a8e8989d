"""Builds a chat completion from an invocation's result. Pure functions."""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from starlette.requests import Request

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import LIMIT, Event
from turnwise.facts.fact import replaced
from turnwise.facts.ids import Issuer, SystemIssuer
from turnwise.facts.waits import Wait, calls_in, is_late
from turnwise.gateway.openai.chat.schema import (
    AssistantMessage,
    Call,
    ChatCompletion,
    ChatUsage,
    Choice,
    Finish,
    Function,
    Head,
    PromptTokens,
)
from turnwise.gateway.problems import Problem, request_id_of, status_of
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.content import arguments_of
from turnwise.gateway.shared.stream import COMPLETE_ENDS, DecisionInfo, failure_text, joined_text, shown_text, token_usage
from turnwise.runner import Invocation, Result


def completion_head(invocation: Invocation, model: str, issuer: Issuer | None = None) -> Head:
    """Returns the fields that are known before the answer. The id is derived from the message."""
    named = sha256("\0".join((*invocation.session, invocation.message_id)).encode(errors="replace")).hexdigest()
    return Head(id=f"chatcmpl-{named[:28]}", created=int((issuer or SystemIssuer()).now().timestamp()), model=model)


class OpenCalls(NamedTuple):
    """The tool calls that an answer leaves open."""

    calls: Sequence[ToolCallPart] = ()
    """The tool calls that the caller has to answer."""
    pending: bool = False
    """Whether an agent's own tool is still running."""


def open_calls(waits: Sequence[Wait], result: Result, view: Redactor) -> OpenCalls:
    """Returns the open calls that this caller may answer, in the order in which they were made."""
    made = {call.call_id: place for place, call in enumerate(calls_in(result.events), 1)}
    # Calls of earlier messages come first. An agent asks for approvals after all calls of a step.
    ordered = sorted(waits, key=lambda wait: (made.get(wait.id, 0), wait.kind == "confirmation"))
    calls = [wait.call for wait in ordered if wait.call]
    return OpenCalls(list(filter(view.answers, calls)), any(map(is_late, calls)))


def decision_metadata(invocation: Invocation, result: Result, open_: OpenCalls, view: Redactor) -> DecisionInfo:
    """Returns where the answer is recorded, and the selection as far as the caller may see it."""
    where = DecisionInfo(session_id=invocation.session.id, message_id=invocation.message_id)
    return where.known(result.invocation_id, result.selection, view, pending=open_.pending)


def failure_of(result: Result, view: Redactor, request: Request) -> Problem | None:
    """Returns the problem of a failed answer; None if there is an answer.

    It has no Retry-After: the failure is recorded, so repeating the request returns the same failure.
    """
    reason = result.end.reason if result.end else ""
    if result.end is None or reason in COMPLETE_ENDS or (reason.startswith(LIMIT) and joined_text(result.events)):
        return None
    error = None if reason == "cancelled" or reason.startswith(LIMIT) else result.error
    code = error.code if error else reason
    status = 409 if reason == "cancelled" else max(status_of(code), 500)
    fix = "Send it as a new message to try again."
    return Problem(status, code, failure_text(reason, error, view), fix, (), request_id_of(request), {})


def completion_of(
    head: Head,
    invocation: Invocation,
    result: Result,
    open_: OpenCalls,
    metadata: dict[str, str] | None,
    view: Redactor,
) -> ChatCompletion:
    """Returns the chat completion."""
    calls = open_.calls
    said = AssistantMessage(
        content=joined_text(result.events) or (None if calls else ""), tool_calls=[call_of(call) for call in calls] or None
    )
    known = replaced(head, system_fingerprint=fingerprint_of(result))
    return ChatCompletion(
        **known.model_dump(),
        choices=[Choice(message=said, finish_reason=finish_of(result, calls))],
        usage=usage_of(result.events),
        metadata=metadata,
        turnwise=decision_metadata(invocation, result, open_, view),
    )


def fingerprint_of(result: Result) -> str | None:
    """Returns the fingerprint of the selection policy; None if no agent was selected."""
    return result.selection.fingerprint or None if result.selection else None


def finish_of(result: Result, calls: Sequence[ToolCallPart]) -> Finish:
    """Returns the finish reason."""
    last = next((event for event in reversed(result.events) if shown_text(event)), None)
    if calls:
        return "tool_calls"
    if last is not None and last.actions.blocked_by:
        return "content_filter"
    reason = result.end.reason if result.end else ""
    if (last is not None and last.actions.cut_off) or (reason.startswith(LIMIT) and reason not in COMPLETE_ENDS):
        return "length"
    return "stop"


def call_of(call: ToolCallPart) -> Call:
    """Returns the tool call in OpenAI's format."""
    return Call(id=call.call_id, function=Function(name=call.tool, arguments=arguments_of(call)))


def usage_of(events: Sequence[Event]) -> ChatUsage:
    """Returns the token usage of these events."""
    used = token_usage(events)
    return ChatUsage(
        prompt_tokens=used.asked,
        completion_tokens=used.answered,
        total_tokens=used.asked + used.answered,
        prompt_tokens_details=PromptTokens(cached_tokens=used.cached),
    )
