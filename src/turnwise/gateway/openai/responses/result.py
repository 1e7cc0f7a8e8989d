"""Builds the final state of a response from its events: status, output items and usage. Pure functions."""

from collections.abc import Sequence
from datetime import datetime

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import LIMIT, USER, End, Event
from turnwise.facts.fact import replaced
from turnwise.facts.sessions import visible
from turnwise.facts.waits import Wait, is_late
from turnwise.gateway.openai.responses.ids import ResponseId
from turnwise.gateway.openai.responses.schema import (
    CallItem,
    Failure,
    Incomplete,
    InputTokens,
    Item,
    MessageItem,
    OutputText,
    ResponseObject,
    Status,
    Tokens,
)
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.content import arguments_of
from turnwise.gateway.shared.stream import (
    COMPLETE_ENDS,
    DecisionInfo,
    MessageCompleted,
    ReaderStream,
    StreamItem,
    Waiting,
    failure_text,
    shown_text,
    token_usage,
)


class Items:
    """Converts events to output items in log order. It lists only the tool calls that the caller may answer.

    Attributes:
        stream: The events as a reader sees them.
        pending: Whether an agent's own tool is still running.
    """

    def __init__(self, name: ResponseId, view: Redactor) -> None:
        self._name, self._view = name, view
        self.stream = ReaderStream(serial=True)
        self.pending = False

    def of(self, event: Event) -> list[Item]:
        """Returns the output items of a stored event."""
        return [item for each in self.stream.feed(event) if (item := self.item(each)) is not None]

    def item(self, each: StreamItem) -> Item | None:
        """Returns the output item that is complete with this item of the stream; None if none is."""
        match each:
            case MessageCompleted(event, text) if text:
                return MessageItem(id=self._name.item(event), content=[OutputText(text=text)], agent=event.author)
            case Waiting(Wait(call=call, agent=agent)) if call is not None:
                self.pending |= is_late(call)
                return self._call(call, agent) if self._view.answers(call) else None
        return None

    def _call(self, call: ToolCallPart, agent: str) -> CallItem:
        id_, written = call.call_id, arguments_of(call)
        return CallItem(
            id=self._name.function(id_), call_id=self._name.call(id_), name=call.tool, arguments=written, agent=agent
        )


_COUNTED = frozenset({"limit:turns", "limit:steps", "limit:events"})
_EXPIRED = frozenset({"limit:wait_seconds", "limit:waits"})
"""The ends of expired waits. The response keeps its earlier status."""


def final_response(
    name: ResponseId, blank: ResponseObject, events: Sequence[Event], view: Redactor, before: Sequence[ToolCallPart] = ()
) -> ResponseObject:
    """Returns the response once it is answered or waits.

    Args:
        name: The response's id.
        blank: The response before it had output.
        events: The stored events of its message; empty if it was cancelled before it started.
        view: The caller's redactor.
        before: The earlier tool calls of its invocation.
    """
    shown = visible(events)
    end = End(reason="cancelled") if not events else _end_of(shown)
    items, output = Items(name, view), list[Item]()
    items.stream.know(before)
    for event in shown:
        output += items.of(event)
    status, incomplete = _status(shown, end)
    return replaced(
        blank,
        status=status,
        completed_at=seconds(shown[-1].created_at) if status == "completed" and shown else None,
        incomplete_details=incomplete,
        error=_failure(shown, end, view) if status == "failed" else None,
        output=output,
        usage=_tokens(shown),
        turnwise=_decision_info(blank.turnwise, shown, view, pending=items.pending and not _is_over(shown)),
    )


def seconds(time: datetime) -> int:
    """Returns the time as a Unix timestamp in seconds."""
    return int(time.timestamp())


def _end_of(events: Sequence[Event]) -> End | None:
    """Returns the end of the invocation; None if it waits or its wait expired."""
    end = next((event.actions.end for event in reversed(events) if event.actions.end), None)
    return None if end is not None and end.reason in _EXPIRED else end


def _is_over(events: Sequence[Event]) -> bool:
    return any(event.actions.end for event in events)


def _status(events: Sequence[Event], end: End | None) -> tuple[Status, Incomplete | None]:
    """Returns the status of a finished response, and why it is incomplete."""
    last = next((event for event in reversed(events) if shown_text(event)), None)
    if end is not None and end.reason == "cancelled":
        return "cancelled", None
    if end is not None and end.reason not in COMPLETE_ENDS:
        if last is None or not end.reason.startswith(LIMIT):
            return "failed", None
        limit = "messages" if end.reason in _COUNTED else end.reason.removeprefix(LIMIT)
        return "incomplete", Incomplete(reason=f"max_{limit}")
    if last is not None and last.actions.blocked_by:
        return "incomplete", Incomplete(reason="content_filter")
    if last is not None and last.actions.cut_off:
        return "incomplete", Incomplete(reason="max_output_tokens")
    return "completed", None


def _decision_info(known: DecisionInfo, events: Sequence[Event], view: Redactor, *, pending: bool) -> DecisionInfo:
    selection = next((event.actions.selection for event in events if event.author == USER and event.actions.selection), None)
    return known.known(events[0].invocation_id if events else None, selection, view, pending=pending)


def _failure(events: Sequence[Event], end: End | None, view: Redactor) -> Failure:
    error = next((event.error for event in reversed(events) if event.error), None)
    return Failure(message=failure_text(end.reason if end else "", error, view))


def _tokens(events: Sequence[Event]) -> Tokens:
    """Returns the token counts of all model calls."""
    used = token_usage(events)
    return Tokens(
        input_tokens=used.asked,
        input_tokens_details=InputTokens(cached_tokens=used.cached),
        output_tokens=used.answered,
        total_tokens=used.asked + used.answered,
    )
