"""Applies the verdicts of guardrails to contents and events. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from turnwise.facts.content import Content, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from turnwise.facts.errors import MessageBlocked
from turnwise.facts.events import Actions, Event, Guarded
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place

REASON_CHARACTERS = 500


class GuardrailResult(NamedTuple):
    """The content after the guardrails, None when one blocked it, and the actions to record."""

    content: Content | None
    guarded: tuple[Guarded, ...] = ()


def effective_verdict(verdict: object, place: Place, before: Content) -> GuardrailVerdict | None:
    """Returns the verdict as it applies to that content; None when it is invalid or does what a guardrail may not do.

    A rewrite may change text, or the arguments of the one call. It may not add calls or results, nor change a call's id
    or tool. Calls that it omits stay, since each call is checked separately. A result that it omits becomes a failed
    result, because its call must have one.
    """
    if not isinstance(verdict, GuardrailVerdict) or not isinstance(verdict.reason, str):
        return None
    reason = verdict.reason.encode(errors="backslashreplace").decode()[:REASON_CHARACTERS]
    if verdict.action == "allow":
        return ALLOW
    if verdict.action == "block":
        return GuardrailVerdict("block", reason=reason)
    if verdict.action != "rewrite" or not isinstance(verdict.content, Content):
        return None
    after = (_with_arguments if place == "tool_call" else _with_words)(before, verdict.content, reason)
    if after is None or not _can_be_stored(after):
        return None
    return ALLOW if after == before else GuardrailVerdict("rewrite", after, reason)


def blocked_message(guarded: Sequence[Guarded]) -> MessageBlocked | None:
    """Returns the error for a message with these recorded actions; None when it was not blocked."""
    if not guarded or guarded[-1].action != "block":
        return None
    return MessageBlocked(f"The guardrail {guarded[-1].guardrail!r} blocked the message: {guarded[-1].reason}")


def redacted_call(call: ToolCallPart, passed: GuardrailResult) -> ToolCallPart:
    """Returns the call as recorded. A blocked call loses its arguments."""
    if passed.content is None:
        return call.replace(arguments={}, raw=None, seal=None)
    return passed.content.tool_calls[0]


def with_checked_calls(event: Event, calls: Sequence[ToolCallPart], guarded: tuple[Guarded, ...]) -> Event:
    """Returns the event with its checked calls, in order. It does not wait for the result of a blocked call.

    Thinking parts keep their seals: a provider rejects signed calls without their thinking. They are checked with the
    text.
    """
    if not guarded or event.content is None:
        return event
    left = iter(calls)
    parts = tuple(next(left) if isinstance(part, ToolCallPart) else part for part in event.content.parts)
    blocked = {each.call_id for each in guarded if each.action == "block"}
    awaits = event.actions.awaits
    left_wait = None if awaits is not None and awaits.id in blocked else awaits
    actions = event.actions.replace(guarded=(*event.actions.guarded, *guarded), awaits=left_wait)
    return event.replace(content=event.content.with_parts(parts), actions=actions)


def with_checked_summary(event: Event, passed: GuardrailResult) -> Event:
    """Returns the event with its checked summary. A blocked summary is dropped, and a later turn makes a new one."""
    summary = event.actions.summary
    if not passed.guarded or summary is None:
        return event
    left = None if passed.content is None else summary.replace(text=passed.content.text)
    return event.with_actions(summary=left, guarded=(*event.actions.guarded, *passed.guarded))


def with_checked_answer(event: Event, passed: GuardrailResult) -> Event:
    """Returns the event with its checked content.

    The reason replaces a blocked answer, and its other actions, such as a wait, are dropped. Blocked tool results become
    failed results with the reason, and the agent continues.
    """
    if not passed.guarded or event.content is None:
        return event
    guarded = (*event.actions.guarded, *passed.guarded)
    if passed.content is not None:
        actions = event.actions.replace(guarded=guarded)
        return event.replace(content=without_sealed_parts(passed.content), actions=actions)
    by, results = passed.guarded[-1], event.content.tool_results
    failed = tuple(_failed(result, by.reason) for result in results)
    if results and all(isinstance(part, ToolResultPart | ThinkingPart) for part in event.content.parts):
        actions = event.actions.replace(guarded=guarded)
        return event.replace(content=Content(parts=failed), actions=actions)
    actions = Actions(
        state_delta=event.actions.state_delta,
        artifact_versions=event.actions.artifact_versions,
        steps=event.actions.steps,
        usage=event.actions.usage,
        guarded=guarded,
        blocked_by=by.guardrail,
    )
    return event.replace(content=Content(parts=(TextPart(text=by.reason), *failed)), actions=actions)


def without_sealed_parts(content: Content) -> Content:
    """Returns the content without thinking and seals: both may contain removed text in encoded form."""
    parts = tuple(
        part.replace(seal=None) if isinstance(part, TextPart | ToolCallPart) and part.seal else part
        for part in content.parts
        if not isinstance(part, ThinkingPart)
    )
    return content.with_parts(parts)


def _with_arguments(before: Content, after: Content, _: str) -> Content | None:
    """Returns the call with the guardrail's arguments; None if the rewrite changes more than the arguments of this one call."""
    call = before.tool_calls[0]
    if len(after.parts) != 1 or not after.tool_calls:
        return None
    new = after.tool_calls[0]
    if (new.call_id, new.tool) != (call.call_id, call.tool):
        return None
    seal = None if new != call else call.seal
    if call.raw is not None:  # a call with invalid arguments must not become a valid call without arguments
        return Content(role=before.role, parts=(call.replace(arguments={}, raw=new.raw or "", seal=seal),))
    return Content(role=before.role, parts=(call.replace(arguments=new.arguments, raw=new.raw, seal=seal),))


def _with_words(before: Content, after: Content, reason: str) -> Content | None:
    """Returns the rewritten content with the calls and results that the rewrite omitted; None if it changes or adds one."""
    calls = {call.call_id: call for call in before.tool_calls}
    results = {result.call_id: result for result in before.tool_results}
    if any(calls.get(call.call_id) != call for call in after.tool_calls):
        return None
    kept = {call.call_id for call in after.tool_calls}, {result.call_id for result in after.tool_results}
    if not kept[1] <= results.keys():
        return None
    lost = [_failed(result, reason) for id_, result in results.items() if id_ not in kept[1]]
    parts = (*lost, *after.parts, *(call for id_, call in calls.items() if id_ not in kept[0]))
    return Content(role=before.role, parts=parts) if parts else None


def _failed(result: ToolResultPart, reason: str) -> ToolResultPart:
    return ToolResultPart(call_id=result.call_id, tool=result.tool, result=reason or "Withheld.", failed=True)


def _can_be_stored(content: Content) -> bool:
    try:
        content.model_dump_json()
    except ValueError:
        return False
    return True
