"""Converts session events to AG-UI events. Pure.

A stored event gives, in this order: thinking (if visible), text, tool calls, tool results, artifacts, state, and the selection.
Partial events send text and thinking earlier. Agents are announced first and everything opened is closed, so clients that
verify the order accept the stream.

For the protocol the gateway is the agent, and the agents of the tree are its subagents. A subagent id consists of the
invocation and the branch, so an agent that continues after a wait keeps its id in the next run.

STEP_STARTED       a turn begins: its agent was selected, or received a handoff
SUBAGENT_STARTED   an agent produces its first output, in its turn or nested below the turn's agent
SUBAGENT_FINISHED  the agent is done, at the latest at the end of its turn or of the run; suspended if it waits
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import LIMIT, USER, Event
from turnwise.facts.sessions import TEMP_PREFIX
from turnwise.facts.usage import Usage
from turnwise.facts.waits import calls_in, is_late
from turnwise.gateway.ag_ui.messages import ClientMessages, result_id, result_text
from turnwise.gateway.ag_ui.schema import ClientStateMirror, Wire, custom_event, event
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.content import arguments_of
from turnwise.gateway.shared.stream import (
    COMPLETE_ENDS,
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
from turnwise.runner import Result

WIRE_TYPES: Mapping[MessageKind, tuple[str, str]] = MappingProxyType(
    {"text": ("TEXT_MESSAGE", ""), "thinking": ("REASONING_MESSAGE", "REASONING")}
)
"""For each kind of message: the kind of its events, and of the events that enclose them, if any."""


class RunEvents:
    """Converts the events of one run for one reader."""

    def __init__(self, view: Redactor, speakers: "TurnSteps", client: ClientMessages, mirror: ClientStateMirror) -> None:
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


class TurnSteps:
    """Emits step and subagent events.

    Args:
        description_of: Returns an agent's description, if the reader may know of the agent.
        supports_subagents: Whether the client supports subagents.
    """

    def __init__(self, description_of: Callable[[str], str | None], *, supports_subagents: bool = True) -> None:
        self._description_of, self._supports_subagents = description_of, supports_subagents
        self._step: str | None = None
        self._open: dict[str, None] = {}
        self._begun: set[str] = set()

    def begin(self, agent: str) -> Iterator[Wire]:
        """Starts an agent's turn, unless it is the current one."""
        if agent != self._step:
            yield from self._end_step()
            self._step = agent
            yield event("STEP_STARTED", stepName=agent)

    def hand_over(self, agent: str) -> Iterator[Wire]:
        """Ends the current turn and starts the next agent's."""
        yield from self._finish(list(self._open), {})
        yield from self._end_step()
        yield from self.begin(agent)

    def tag(self, source: Event) -> str | None:
        """Returns the subagent id for an event; None if the event belongs to no subagent."""
        return _id(source, source.branch) if self._supports_subagents and source.branch else None

    def announce(self, source: Event) -> Iterator[Wire]:
        """Announces the event's agent as a subagent, once."""
        tag = self.tag(source)
        if tag is None or tag in self._begun:
            return
        above = [_id(source, branch) for branch in source.branch.parent.with_ancestors()]
        parent = next((id_ for id_ in above if id_ in self._begun), None)
        self._begun.add(tag)
        self._open[tag] = None
        description = self._description_of(source.author)
        yield event(
            "SUBAGENT_STARTED", subagentRunId=tag, name=source.author, description=description, parentSubagentRunId=parent
        )

    def finished(self, source: Event) -> Iterator[Wire]:
        """Ends the subagents that the event reports as finished."""
        if source.actions.finished and self._supports_subagents:
            yield from self._finish([_id(source, branch) for branch in source.actions.finished], {})

    def fail(self, source: Event, message: str, code: str) -> Iterator[Wire]:
        """Ends the event's subagent with an error."""
        tag = self.tag(source)
        if tag in self._open:
            del self._open[tag]
            yield event("SUBAGENT_ERROR", subagentRunId=tag, message=message, code=code)

    def is_open(self, tag: str | None) -> bool:
        """Returns whether the subagent was announced and has not ended."""
        return tag in self._open

    def close(self, waiting: Mapping[str, Sequence[str]]) -> Iterator[Wire]:
        """Ends the run's turn and subagents. waiting: the interrupts of each suspended subagent."""
        yield from self._finish(list(self._open), waiting)
        yield from self._end_step()

    def _finish(self, tags: Sequence[str], waiting: Mapping[str, Sequence[str]]) -> Iterator[Wire]:
        for tag in reversed(tags):
            if tag in self._open:
                del self._open[tag]
                outcome = {"type": "suspended", "interruptIds": list(waiting[tag])} if tag in waiting else None
                yield event("SUBAGENT_FINISHED", subagentRunId=tag, outcome=outcome)

    def _end_step(self) -> Iterator[Wire]:
        if self._step is not None:
            step, self._step = self._step, None
            yield event("STEP_FINISHED", stepName=step)


def _id(source: Event, branch: str) -> str:
    return f"{source.invocation_id}:{branch}"
