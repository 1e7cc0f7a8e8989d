"""What became of a message, as a chat completion. Pure."""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from starlette.requests import Request

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import LIMIT, Event
from turnwise.facts.ids import Issuer, SystemIssuer
from turnwise.gateway.openai.chat.schema import Call, ChatCompletion, Choice, Finish, Function, Head, PromptTokens, Said, Usage
from turnwise.gateway.problems import Problem, request_id_of, status_of
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.tool_calls import arguments_of
from turnwise.gateway.shared.utterances import GOOD, Behind, failure_text, joined_text, shown_text, token_usage
from turnwise.runner import Invocation, Result
from turnwise.transcript.waits import AwaitedCall


def completion_head(invocation: Invocation, model: str, issuer: Issuer | None = None) -> Head:
    """What is known of a completion before it is there."""
    named = sha256("\0".join((*invocation.session, invocation.message_id)).encode(errors="replace")).hexdigest()
    return Head(id=f"chatcmpl-{named[:28]}", created=int((issuer or SystemIssuer()).now().timestamp()), model=model)


class Waits(NamedTuple):
    """What an answer waits for. calls: those whose results are the caller's to give. pending: whether an agent's own tool is
    at work.
    """

    calls: Sequence[ToolCallPart] = ()
    pending: bool = False


def waits_of(awaited: Sequence[AwaitedCall], view: Redactor) -> Waits:
    """What is left for this caller of all that is waited for."""
    return Waits([each.call for each in awaited if view.answers(each.kind)], any(each.kind == "late" for each in awaited))


def decision_metadata(invocation: Invocation, result: Result, waits: Waits, view: Redactor) -> Behind:
    """Where it is on record, and what of the decision its reader may see."""
    where = Behind(session_id=invocation.session.id, message_id=invocation.message_id)
    return where.known(result.invocation_id, result.selection, view, pending=waits.pending)


def failure_of(result: Result, view: Redactor, request: Request) -> Problem | None:
    """Why there is no answer; None when there is one. What is recorded as failed stays so: trying again is no use."""
    reason = result.end.reason if result.end else ""
    if result.end is None or reason in GOOD or (reason.startswith(LIMIT) and joined_text(result.events)):
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
    waits: Waits,
    metadata: dict[str, str] | None,
    view: Redactor,
) -> ChatCompletion:
    """The answer."""
    calls = waits.calls
    said = Said(
        content=joined_text(result.events) or (None if calls else ""), tool_calls=[call_of(call) for call in calls] or None
    )
    known = head.model_copy(update={"system_fingerprint": fingerprint_of(result)})
    return ChatCompletion(
        **known.model_dump(),
        choices=[Choice(message=said, finish_reason=finish_of(result, calls))],
        usage=usage_of(result.events),
        metadata=metadata,
        turnwise=decision_metadata(invocation, result, waits, view),
    )


def fingerprint_of(result: Result) -> str | None:
    """The policy that decided who answers."""
    return result.selection.fingerprint or None if result.selection else None


def finish_of(result: Result, calls: Sequence[ToolCallPart]) -> Finish:
    """Why the answer ends where it does."""
    last = next((event for event in reversed(result.events) if shown_text(event)), None)
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
    return Call(id=call.call_id, function=Function(name=call.tool, arguments=arguments_of(call)))


def usage_of(events: Sequence[Event]) -> Usage:
    """What models took for these events."""
    used = token_usage(events)
    return Usage(
        prompt_tokens=used.asked,
        completion_tokens=used.answered,
        total_tokens=used.asked + used.answered,
        prompt_tokens_details=PromptTokens(cached_tokens=used.cached),
    )
