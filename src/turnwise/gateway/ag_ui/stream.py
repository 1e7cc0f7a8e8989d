"""Converts session events to AG-UI events. Pure.

A stored event gives, in this order: thinking (if visible), text, tool calls, tool results, artifacts, state, and the selection.
Partial events send text and thinking earlier. Agents are announced first and everything opened is closed, so clients that
verify the order accept the stream.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import LIMIT, USER, Event
from turnwise.facts.sessions import TEMP_PREFIX
from turnwise.facts.usage import Usage
from turnwise.facts.waits import calls_in, is_late
from turnwise.gateway.ag_ui.client_messages import ClientMessages
from turnwise.gateway.ag_ui.history import result_id, result_text
from turnwise.gateway.ag_ui.schema import Wire, custom_event, event
from turnwise.gateway.ag_ui.shared_state import ClientStateMirror
from turnwise.gateway.ag_ui.speakers import TurnSteps
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.caller_tools import arguments_of
from turnwise.gateway.shared.stream import (
    MessageAborted,
    MessageCompleted,
    MessageKind,
    MessageStarted,
    ReaderStream,
    Retracted,
    StreamItem,
    TextPiece,
    ToolCalled,
    ToolReturned,
)
from turnwise.gateway.shared.utterances import COMPLETE_ENDS
from turnwise.runner import Result

WIRE_TYPES: Mapping[MessageKind, tuple[str, str]] = MappingProxyType(
    {"text": ("TEXT_MESSAGE", ""), "thinking": ("REASONING_MESSAGE", "REASONING")}
)
"""For each kind of message: the kind of its events, and of the events that enclose them, if any."""


class RunEvents:
    """Converts the events of one run for one reader."""

    def __init__(self, view: Redactor, speakers: TurnSteps, client: ClientMessages, mirror: ClientStateMirror) -> None:
        self._view, self.speakers, self._client, self._mirror = view, speakers, client, mirror
        self._stream = ReaderStream(thinking=True)
        self._earlier_calls: set[str] = set()
        self._calls: dict[str, str | None] = {}

    @property
    def pending(self) -> list[str]:
        """The calls that were sent without a result, in order."""
        return [call_id for call_id in self._calls if self._client.is_open(call_id)]

    def add_earlier(self, events: Iterable[Event]) -> None:
        """Registers calls that an earlier run of the invocation sent, so that their results are sent too."""
        self._earlier_calls |= {call.call_id for call in calls_in(map(self._view.event, events)) if is_late(call)}

    def wires_of(self, source: Event) -> Iterator[Wire]:
        """Yields the wire events for a stored or partial event."""
        shown, has_content = self._view.event(source), False
        if not source.partial and source.author != USER and self._client.holds(source.id):
            self._client.drop([source.id])  # replaced by the current message, if any
        for item in self._stream.feed(shown):
            wires = list(self._item(item))
            if wires and not isinstance(item, MessageAborted | Retracted):
                has_content = True
                yield from self.speakers.announce(source)
            yield from wires
        if source.partial:
            return
        if source.author == USER:
            yield from self._effects(shown, None)
            if source.actions.selection is not None:
                yield from self.speakers.begin(source.actions.selection.agent)
            return
        is_hidden = source.is_private and not has_content  # output of an agent that another one calls privately
        effects = list(self._effects(shown, None if is_hidden else self.speakers.tag(source)))
        if effects and not is_hidden:
            yield from self.speakers.announce(source)
        yield from effects
        yield from self._transitions(shown)

    def close(self) -> Iterator[Wire]:
        """Ends messages that are still open, and corrects the messages if needed."""
        yield from self._abort()
        yield from self._corrections()

    def _item(self, item: StreamItem) -> Iterator[Wire]:
        """Yields the AG-UI events of one stream item, and tracks which messages and calls the client has by then."""
        match item:
            case ToolCalled(source, call):
                yield from self._call(source, call, self.speakers.tag(source))
            case ToolReturned(source, result):
                if result.call_id in self._earlier_calls or self._client.has_call(result.call_id):
                    yield from self._result(source, result.call_id, result_text(result.result), self.speakers.tag(source))
            case Retracted(from_sequence):
                self._client.retract(from_sequence)
                yield from self._corrections()
            case MessageStarted() | TextPiece() | MessageCompleted() | MessageAborted():
                if isinstance(item, MessageCompleted) and item.kind == "text" and item.text:
                    self._client.set_text(item.event, item.text, self.speakers.tag(item.event))
                if not self._client.holds(_message_id(item.event, item.kind)):
                    yield from self._message(item)

    def _message(self, item: MessageStarted | TextPiece | MessageCompleted | MessageAborted) -> Iterator[Wire]:
        """Yields the events of a message that the client did not have when the run began."""
        id_, tag, (kind, span) = _message_id(item.event, item.kind), self.speakers.tag(item.event), WIRE_TYPES[item.kind]
        if isinstance(item, MessageStarted) or (isinstance(item, MessageCompleted) and not item.sent):
            author = {"role": "assistant", "name": item.event.author} if item.kind == "text" else {"role": "reasoning"}
            if span:
                yield event(f"{span}_START", messageId=id_, subagentRunId=tag)
            yield event(f"{kind}_START", messageId=id_, **author, subagentRunId=tag)
        if delta := item.text if isinstance(item, TextPiece) else item.rest if isinstance(item, MessageCompleted) else "":
            yield event(f"{kind}_CONTENT", messageId=id_, delta=delta, subagentRunId=tag)
        if isinstance(item, MessageStarted | TextPiece):
            return
        yield event(f"{kind}_END", messageId=id_, subagentRunId=tag)
        if span:
            yield event(f"{span}_END", messageId=id_, subagentRunId=tag)
        if item.kind == "text" and isinstance(item, MessageCompleted) and item.text:
            self._client.is_wrong |= item.rest is None
        elif item.kind == "text":
            self._client.drop([id_])

    def _call(self, shown: Event, part: ToolCallPart, tag: str | None) -> Iterator[Wire]:
        """Yields the three events of a tool call. A call that the client holds already is only corrected at the end."""
        self._client.add_call(shown, part, tag)
        id_ = part.call_id
        if id_ in self._earlier_calls or self._client.holds_call(id_) or self._calls.setdefault(id_, tag) != tag:
            self._client.is_wrong = True
            return
        yield event("TOOL_CALL_START", toolCallId=id_, toolCallName=part.tool, parentMessageId=shown.id, subagentRunId=tag)
        yield event("TOOL_CALL_ARGS", toolCallId=id_, delta=arguments_of(part), subagentRunId=tag)
        yield event("TOOL_CALL_END", toolCallId=id_, subagentRunId=tag)

    def _result(self, shown: Event, call_id: str, content: str, tag: str | None) -> Iterator[Wire]:
        """Yields the event of a tool result. A result that the client holds already is only corrected at the end."""
        id_ = result_id(call_id)
        self._client.add_result(shown, call_id, content, tag)
        if self._client.holds(id_):
            self._client.is_wrong = True
            return
        yield event(
            "TOOL_CALL_RESULT",
            messageId=id_,
            toolCallId=call_id,
            content=content,
            role="tool",
            subagentRunId=tag,
        )

    def _effects(self, shown: Event, tag: str | None) -> Iterator[Wire]:
        """Yields artifacts, state changes and the selection."""
        actions = shown.actions
        if actions.artifact_versions:
            yield custom_event("artifacts", dict(actions.artifact_versions), tag)
        persistent = {key: value for key, value in actions.state_delta.items() if not key.startswith(TEMP_PREFIX)}
        yield from self._mirror.apply(persistent, tag)
        if actions.selection is not None:
            yield custom_event("selection", actions.selection.model_dump(mode="json"), tag)

    def _transitions(self, shown: Event) -> Iterator[Wire]:
        """Yields failures, finished subagents and handoffs."""
        if shown.error is not None:
            yield from self.speakers.fail(shown, shown.error.message, shown.error.code)
        yield from self.speakers.finished(shown)
        if shown.actions.transfer_to is not None:
            yield from self._abort()
            yield from self.speakers.hand_over(shown.actions.transfer_to)

    def _corrections(self) -> Iterator[Wire]:
        if self._client.is_wrong:
            self._client.is_wrong = False
            yield event("MESSAGES_SNAPSHOT", messages=self._client.messages())

    def _abort(self) -> Iterator[Wire]:
        """Ends open messages and removes the unfinished ones from the client's messages."""
        for item in self._stream.abort():
            yield from self._item(item)


def _message_id(source: Event, kind: MessageKind) -> str:
    return source.id if kind == "text" else f"{source.id}:thinking"


def is_failed(result: Result) -> bool:
    """Returns whether the invocation failed. A stopped or waiting one did not."""
    reason = result.end.reason if result.end else ""
    return bool(reason) and reason not in COMPLETE_ENDS and not is_stopped(result)


def is_stopped(result: Result) -> bool:
    """Returns whether the invocation was cancelled, or a limit stopped it before it had an answer."""
    reason = result.end.reason if result.end else ""
    return reason == "cancelled" or (reason.startswith(LIMIT) and reason not in COMPLETE_ENDS)


def outcome_of(result: Result | None, interrupts: Sequence[Wire], pending: Sequence[str]) -> Wire:
    """Returns the outcome of a run that did not fail.

    Args:
        result: None = nothing was answered.
        pending: Calls without a result.
    """
    if result is not None and is_stopped(result):
        return {"type": "cancelled"}
    if interrupts:
        return {"type": "interrupt", "interrupts": list(interrupts)}
    return {"type": "success", **({"pendingToolCallIds": list(pending)} if pending else {})}


def usage_of(events: Iterable[Event]) -> list[Wire] | None:
    """Sums the reported token usage for each model; None if none was reported."""
    used: dict[str, Usage] = {}
    for recorded in events:
        usage = recorded.actions.usage
        if usage is not None:
            used[usage.model] = used[usage.model] + usage if usage.model in used else usage
    return [entry for entry in map(_entry, used.values()) if "totalTokens" in entry] or None


def _entry(usage: Usage) -> Wire:
    """Returns the token counts of one model, without zeros."""
    provider, _, model = usage.model.rpartition(":")
    counts = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.input_tokens + usage.output_tokens,
        "cachedInputTokens": usage.cached_tokens,
    }
    known: dict[str, Any] = {"provider": provider, "model": model, **counts}
    return {name: value for name, value in known.items() if value}
