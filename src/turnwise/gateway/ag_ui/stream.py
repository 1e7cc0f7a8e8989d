"""Converts session events to AG-UI events. Pure.

A stored event gives, in this order: thinking (if visible), text, tool calls, tool results, artifacts, state, and the selection.
Partial events send text and thinking earlier. Agents are announced first and everything opened is closed, so clients that
verify the order accept the stream.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

from turnwise.facts.content import ThinkingPart, ToolCallPart
from turnwise.facts.events import LIMIT, USER, Event
from turnwise.facts.sessions import TEMP_PREFIX
from turnwise.facts.usage import Usage
from turnwise.facts.waits import calls_in, is_approval, is_late
from turnwise.gateway.ag_ui.client_messages import ClientMessages
from turnwise.gateway.ag_ui.history import result_id, result_text
from turnwise.gateway.ag_ui.schema import Wire, custom_event, event
from turnwise.gateway.ag_ui.speakers import TurnSteps
from turnwise.gateway.ag_ui.state import ClientStateMirror
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.tool_calls import arguments_of
from turnwise.gateway.shared.utterances import COMPLETE_ENDS, is_shown_to_user, shown_text
from turnwise.runner import Result


class TextStreams:
    """The open texts of one kind, by id. span: the kind of event that encloses each text, if any."""

    def __init__(self, kind: str, span: str = "") -> None:
        self._kind, self._span = kind, span
        self._open: dict[str, _OpenText] = {}

    @property
    def open(self) -> list[str]:
        """The ids of texts that were started and not ended."""
        return list(self._open)

    def is_open(self, id_: str) -> bool:
        """Returns whether this text was started and not ended."""
        return id_ in self._open

    def chunk(self, id_: str, text: str, offset: int | None, **start_fields: Any) -> Iterator[Wire]:
        """Yields the events for the next chunk.

        A chunk that leaves a gap is ignored, as is a text whose start was missed: the stored event brings the whole text.

        Args:
            offset: Position in the text; None = directly after the previous chunk.
            start_fields: Fields of the start event.
        """
        open_text = self._open.get(id_)
        if open_text is None:
            if offset:
                return
            open_text = self._open[id_] = _OpenText(start_fields.get("subagentRunId"))
            yield from self._begin(id_, start_fields)
        if delta := open_text.take(text, offset):
            yield self._delta(id_, delta, open_text.tag)

    def complete(self, id_: str, text: str, **start_fields: Any) -> Generator[Wire, None, bool]:
        """Completes a text and ends it. Returns whether the client now has exactly this text."""
        tag = start_fields.get("subagentRunId")
        if id_ not in self._open:
            self._open[id_] = _OpenText(tag)
            yield from self._begin(id_, start_fields)
        sent = self._open[id_].sent
        fits = text.startswith(sent)
        if fits and text != sent:
            yield self._delta(id_, text[len(sent) :], tag)
        yield from self.end(id_)
        return fits

    def end(self, id_: str) -> Iterator[Wire]:
        """Ends a text, if it was started."""
        open_text = self._open.pop(id_, None)
        if open_text is not None:
            yield event(f"{self._kind}_END", messageId=id_, subagentRunId=open_text.tag)
            if self._span:
                yield event(f"{self._span}_END", messageId=id_, subagentRunId=open_text.tag)

    def end_all(self) -> Iterator[Wire]:
        """Ends all open texts."""
        for id_ in list(self._open):
            yield from self.end(id_)

    def _begin(self, id_: str, start_fields: dict[str, Any]) -> Iterator[Wire]:
        if self._span:
            yield event(f"{self._span}_START", messageId=id_, subagentRunId=start_fields.get("subagentRunId"))
        yield event(f"{self._kind}_START", messageId=id_, **start_fields)

    def _delta(self, id_: str, text: str, tag: str | None) -> Wire:
        return event(f"{self._kind}_CONTENT", messageId=id_, delta=text, subagentRunId=tag)


class _OpenText:
    """A text that is being streamed."""

    def __init__(self, tag: str | None) -> None:
        self.tag = tag
        self._pieces: list[str] = []
        self._length = 0
        self._has_gap = False

    @property
    def sent(self) -> str:
        """The text sent so far."""
        return "".join(self._pieces)

    def take(self, text: str, offset: int | None) -> str:
        """Returns the new part of a chunk; empty if it repeats or a gap occurred."""
        missing = 0 if offset is None else offset - self._length
        self._has_gap |= missing > 0
        if self._has_gap:
            return ""
        new = text[-missing:] if missing < 0 else text
        if missing < 0 and -missing >= len(text):
            return ""
        self._pieces.append(new)
        self._length += len(new)
        return new


class RunEvents:
    """Converts the events of one run for one reader."""

    def __init__(self, view: Redactor, speakers: TurnSteps, client: ClientMessages, mirror: ClientStateMirror) -> None:
        self._view, self.speakers, self._client, self._mirror = view, speakers, client, mirror
        self._texts, self._thoughts = TextStreams("TEXT_MESSAGE"), TextStreams("REASONING_MESSAGE", "REASONING")
        self._earlier_calls: set[str] = set()
        self._calls: dict[str, str | None] = {}
        self._thinking_ids: set[str] = set()

    @property
    def pending(self) -> list[str]:
        """The calls that were sent without a result, in order."""
        return [call_id for call_id in self._calls if self._client.is_open(call_id)]

    def add_earlier(self, events: Iterable[Event]) -> None:
        """Registers calls that an earlier run of the invocation sent, so that their results are sent too."""
        self._earlier_calls |= {call.call_id for call in calls_in(map(self._view.event, events)) if is_late(call)}

    def wires_of(self, source: Event) -> Iterator[Wire]:
        """Yields the wire events for a stored or partial event."""
        if source.partial:
            yield from self._partial(source)
            return
        shown = self._view.event(source)
        if source.actions.rewind is not None:
            yield from self._end_texts()
            self._client.retract(source.actions.rewind.from_sequence)
            yield from self._corrections()
        if source.author == USER:
            yield from self._effects(shown, None)
            if source.actions.selection is not None:
                yield from self.speakers.begin(source.actions.selection.agent)
            return
        tag = self.speakers.tag(source)
        content = list(self._content(shown, tag))
        if source.is_private and not content:  # output of an agent that another one calls privately is hidden
            yield from self._effects(shown, None)
        elif wires := [*content, *self._effects(shown, tag)]:
            yield from self.speakers.announce(source)
            yield from wires
        yield from self._transitions(shown)

    def close(self) -> Iterator[Wire]:
        """Ends texts that are still open, and corrects the messages if needed."""
        yield from self._end_texts()
        yield from self._corrections()

    def _partial(self, source: Event) -> Iterator[Wire]:
        shown, tag = self._view.event(source), self.speakers.tag(source)
        wires: list[Wire] = []
        if thought := _thought(shown):
            self._thinking_ids.add(_thinking(source))
            wires += self._thoughts.chunk(_thinking(source), thought, None, role="reasoning", subagentRunId=tag)
        if source.text and is_shown_to_user(source) and not self._client.holds(source.id):
            wires += self._thoughts.end(_thinking(source))
            wires += self._texts.chunk(
                source.id, source.text, source.offset, role="assistant", name=source.author, subagentRunId=tag
            )
        if wires:
            yield from self.speakers.announce(source)
            yield from wires

    def _content(self, shown: Event, tag: str | None) -> Iterator[Wire]:
        """Yields thinking, text, calls and results."""
        yield from self._thinking(shown, tag)
        yield from self._text(shown, shown_text(shown), tag)
        if shown.content is None:
            return
        for part in shown.content.tool_calls:
            if not is_approval(part):
                yield from self._call(shown, part, tag)
        for result in shown.content.tool_results:
            if result.call_id in self._earlier_calls or self._client.has_call(result.call_id):
                yield from self._result(shown, result.call_id, result_text(result.result), tag)

    def _thinking(self, shown: Event, tag: str | None) -> Iterator[Wire]:
        id_, thought = _thinking(shown), _thought(shown)
        if self._thoughts.is_open(id_) or (thought and id_ not in self._thinking_ids and not self._client.holds(id_)):
            yield from self._thoughts.complete(id_, thought, role="reasoning", subagentRunId=tag)
        self._thinking_ids.add(id_)

    def _text(self, shown: Event, text: str, tag: str | None) -> Iterator[Wire]:
        client_has = self._client.holds(shown.id)
        if client_has:  # replaced by the current text, if any
            self._client.drop([shown.id])
        if text:
            self._client.set_text(shown, text, tag)
        if text and not client_has:
            fits = yield from self._texts.complete(shown.id, text, role="assistant", name=shown.author, subagentRunId=tag)
            self._client.is_wrong |= not fits

    def _call(self, shown: Event, part: ToolCallPart, tag: str | None) -> Iterator[Wire]:
        self._client.add_call(shown, part, tag)
        id_ = part.call_id
        if id_ in self._earlier_calls or self._client.holds_call(id_) or self._calls.setdefault(id_, tag) != tag:
            self._client.is_wrong = True
            return
        yield event("TOOL_CALL_START", toolCallId=id_, toolCallName=part.tool, parentMessageId=shown.id, subagentRunId=tag)
        yield event("TOOL_CALL_ARGS", toolCallId=id_, delta=arguments_of(part), subagentRunId=tag)
        yield event("TOOL_CALL_END", toolCallId=id_, subagentRunId=tag)

    def _result(self, shown: Event, call_id: str, content: str, tag: str | None) -> Iterator[Wire]:
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
            yield from self._end_texts()
            yield from self.speakers.hand_over(shown.actions.transfer_to)

    def _corrections(self) -> Iterator[Wire]:
        if self._client.is_wrong:
            self._client.is_wrong = False
            yield event("MESSAGES_SNAPSHOT", messages=self._client.messages())

    def _end_texts(self) -> Iterator[Wire]:
        """Ends open texts and removes the unfinished ones from the client's messages."""
        yield from self._thoughts.end_all()
        self._client.drop(self._texts.open)
        yield from self._texts.end_all()


def _thinking(source: Event) -> str:
    """Returns the id of the event's thinking message."""
    return f"{source.id}:thinking"


def _thought(shown: Event) -> str:
    parts = shown.content.parts if shown.content else ()
    return "\n".join(part.text for part in parts if isinstance(part, ThinkingPart) and part.text)


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
    provider, _, model = usage.model.rpartition(":")
    counts = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.input_tokens + usage.output_tokens,
        "cachedInputTokens": usage.cached_tokens,
    }
    known: dict[str, Any] = {"provider": provider, "model": model, **counts}
    return {name: value for name, value in known.items() if value}
