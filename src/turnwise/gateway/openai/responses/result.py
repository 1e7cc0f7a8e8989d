"""What became of a message, as a response: its status, its items, what it took. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import LIMIT, USER, End, Event
from turnwise.facts.sessions import visible
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
from turnwise.gateway.shared.tool_calls import CallMade, arguments_of, calls_in
from turnwise.gateway.shared.utterances import GOOD, Behind, failure_text, shown_text, token_usage


class Items:
    """The items of one answer, in the order of the log. Of the calls, those whose results are the reader's to give; pending:
    whether there are some that an agent's own tool works on.
    """

    def __init__(self, name: ResponseId, view: Redactor) -> None:
        self._name, self._view = name, view
        self._calls: dict[str, CallMade] = {}
        self._asked: set[str] = set()
        self.pending = False

    def know(self, calls: Iterable[CallMade]) -> None:
        """These calls were made before, and may still be waited for."""
        self._calls |= {made.call.call_id: made for made in calls}

    def of(self, event: Event) -> list[Item]:
        """The items that stored event brings."""
        if event.author == USER:
            return []
        items: list[Item] = []
        if text := shown_text(event):
            content = [OutputText(text=text)]
            items.append(MessageItem(id=self._name.item(event), content=content, agent=event.author))
        self.know(calls_in([event]))
        awaits = event.actions.awaits
        if awaits is not None and awaits.kind == "tool_result" and awaits.id not in self._asked:
            self._asked.add(awaits.id)
            if (made := self._calls.get(awaits.id)) is not None:
                self.pending |= made.kind == "late"
                if self._view.answers(made.kind):
                    items.append(self._call(made.call, event.author))
        return items

    def _call(self, call: ToolCallPart, agent: str) -> CallItem:
        id_, written = call.call_id, arguments_of(call)
        return CallItem(
            id=self._name.function(id_), call_id=self._name.call(id_), name=call.tool, arguments=written, agent=agent
        )


_COUNTED = frozenset({"limit:turns", "limit:steps", "limit:events"})
_LAPSED = frozenset({"limit:wait_seconds", "limit:waits"})
"""Nobody gave what was awaited. What was said until then stays as it was."""


def final_response(
    name: ResponseId, blank: ResponseObject, events: Sequence[Event], view: Redactor, before: Sequence[CallMade] = ()
) -> ResponseObject:
    """The response whose message's events these are, stored ones, once it is answered or waits; blank: as it was begun.

    No events: it was cancelled before it began. before: the calls of its invocation that were made before it.
    """
    told = visible(events)
    end = End(reason="cancelled") if not events else _end_of(told)
    items, output = Items(name, view), list[Item]()
    items.know(before)
    for event in told:
        output += items.of(event)
    status, incomplete = _status(told, end)
    return blank.model_copy(
        update={
            "status": status,
            "completed_at": seconds(told[-1].created_at) if status == "completed" and told else None,
            "incomplete_details": incomplete,
            "error": _failure(told, end, view) if status == "failed" else None,
            "output": output,
            "usage": _tokens(told),
            "turnwise": _behind(blank.turnwise, told, view, pending=items.pending and not _is_over(told)),
        }
    )


def seconds(time: datetime) -> int:
    """A time as the wire has it."""
    return int(time.timestamp())


def _end_of(events: Sequence[Event]) -> End | None:
    """How it ended; None = it waits, or did when it was last heard of."""
    end = next((event.actions.end for event in reversed(events) if event.actions.end), None)
    return None if end is not None and end.reason in _LAPSED else end


def _is_over(events: Sequence[Event]) -> bool:
    return any(event.actions.end for event in events)


def _status(events: Sequence[Event], end: End | None) -> tuple[Status, Incomplete | None]:
    last = next((event for event in reversed(events) if shown_text(event)), None)
    if end is not None and end.reason == "cancelled":
        return "cancelled", None
    if end is not None and end.reason not in GOOD:
        if last is None or not end.reason.startswith(LIMIT):
            return "failed", None
        limit = "messages" if end.reason in _COUNTED else end.reason.removeprefix(LIMIT)
        return "incomplete", Incomplete(reason=f"max_{limit}")
    if last is not None and last.actions.blocked_by:
        return "incomplete", Incomplete(reason="content_filter")
    if last is not None and last.actions.cut_off:
        return "incomplete", Incomplete(reason="max_output_tokens")
    return "completed", None


def _behind(known: Behind, events: Sequence[Event], view: Redactor, *, pending: bool) -> Behind:
    selection = next((event.actions.selection for event in events if event.author == USER and event.actions.selection), None)
    return known.known(events[0].invocation_id if events else None, selection, view, pending=pending)


def _failure(events: Sequence[Event], end: End | None, view: Redactor) -> Failure:
    error = next((event.error for event in reversed(events) if event.error), None)
    return Failure(message=failure_text(end.reason if end else "", error, view))


def _tokens(events: Sequence[Event]) -> Tokens:
    used = token_usage(events)
    return Tokens(
        input_tokens=used.asked,
        input_tokens_details=InputTokens(cached_tokens=used.cached),
        output_tokens=used.answered,
        total_tokens=used.asked + used.answered,
    )
