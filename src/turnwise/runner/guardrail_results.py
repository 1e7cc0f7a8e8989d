"""Applies the verdicts of guardrails to contents, to events and to streamed text.

Of streamed text, it holds back only what a guardrail may still change.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple

from turnwise.facts.content import Content, TextPart, ThinkingPart, ToolCallPart, ToolResultPart, text_content
from turnwise.facts.errors import MessageBlocked
from turnwise.facts.events import Actions, Event, Guarded
from turnwise.matching.normalize import strip_invisible
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place

REASON_CHARACTERS = 500

Check = Callable[[str], Awaitable[str | None]]
"""Returns the text after a check; None when it is blocked."""

_LEAST_STEP = 8
_TRIED_CUTS = 4


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


class StreamGuard:
    """The answers that are being streamed in one invocation, by event id.

    Args:
        stages: Returns the stages for an author's text; None when nothing can be shown before the end.
    """

    def __init__(self, stages: Callable[[str], "Sequence[StreamStage] | None"]) -> None:
        self._stages = stages
        self._streams: dict[str, _Stream] = {}

    async def released(self, event: Event) -> Event | None:
        """Returns the partial event with the text that can be shown now; None when there is none.

        Pieces of thinking and of tool calls are never shown: they can only be checked when complete.
        """
        if not event.text:
            return None
        stream = self._streams.get(event.id)
        if stream is None:
            stream = self._streams[event.id] = _Stream(self._stages(event.author))
        offset = stream.shown
        text = await stream.feed(event.text)
        return event.replace(content=text_content(text), offset=offset) if text else None

    def forget(self, event_id: str) -> None:
        """Discards the state of an answer that is complete."""
        self._streams.pop(event_id, None)


class _Stream:
    """One streamed answer."""

    def __init__(self, stages: "Sequence[StreamStage] | None") -> None:
        self._stages = stages
        self.shown = 0
        """The number of characters shown so far."""

    async def feed(self, text: str) -> str:
        """Returns the text that can be shown after this piece. After a block it returns only empty texts."""
        if self._stages is None:
            return ""
        for stage in self._stages:
            left = await stage.feed(text)
            if left is None:
                # The check of the complete answer records the block; nothing more is shown until then.
                self._stages = None
                return ""
            text = left
        self.shown += len(text)
        return text


class StreamStage:
    """Filters a stream of text through one guardrail, of which only `check` and `reach` are known.

    A finding that begins more than `reach` characters back is recognised by now. The text is cut there, if checking both sides
    separately gives the same as checking them together: then no finding spans the cut. Otherwise an earlier
    cut is tried, and if all of the text belongs to one long finding, nothing is released yet. The last released text
    stays as the context of the rest. The joined results of `feed` are a prefix of the guardrail's result for the whole
    text.
    """

    def __init__(self, check: Check, reach: int) -> None:
        self._check, self._reach = check, reach
        self._step = max(_LEAST_STEP, reach // 4) if reach else 1
        self._text = ""
        self._gone = 0
        self._look_at = reach + self._step

    async def feed(self, piece: str) -> str | None:
        """Returns the text that can be shown after this piece, possibly empty; None when the guardrail blocks."""
        self._text += piece
        if len(self._text) - self._gone < self._look_at:
            return ""
        whole = await self._check(self._text)
        if whole is None:
            return None
        gone = await self._check(self._text[: self._gone]) if self._gone else ""
        for cut in self._cuts(whole):
            left, right = await self._check(self._text[:cut]), await self._check(self._text[cut:])
            if gone is None or left is None or right is None:
                continue
            if left + right == whole and left.startswith(gone):
                return self._let_go(cut, left[len(gone) :])
        # Long findings are checked less often, so that the total cost stays linear.
        self._look_at = (len(self._text) - self._gone) * 3 // 2
        return ""

    def _let_go(self, cut: int, text: str) -> str:
        self._text, self._gone = self._text[self._gone :], cut - self._gone
        self._look_at = max(len(self._text) - self._gone, self._reach) + self._step
        return text

    def _cuts(self, whole: str) -> Iterator[int]:
        """Yields cuts to try: `reach` characters before the end, a few earlier ones, then the beginning of the first
        finding.
        """
        limit = self._limit()
        for place in range(_TRIED_CUTS):
            cut = limit - place * self._step
            if cut <= self._gone:
                return
            yield cut
        same = next((at for at, (one, other) in enumerate(zip(self._text, whole, strict=False)) if one != other), 0)
        if self._gone < same < limit:
            yield same

    def _limit(self) -> int:
        """Returns the cut after which `reach` visible characters follow. Guardrails ignore invisible characters."""
        cut = len(self._text) - self._reach
        while cut > self._gone and (lacking := self._reach - len(strip_invisible(self._text[cut:]))) > 0:
            cut -= lacking
        return cut


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
