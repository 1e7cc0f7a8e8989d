"""A run as a sequence of events of the protocol: events of ours in, events of the wire out. Pure.

What each event of the log tells, in this order: thinking (for who may see it), text, calls, what calls gave, artifacts, state,
a decision. Live pieces tell text and thinking sooner. Whoever speaks is announced before, and whatever was opened is closed,
so that a client that verifies the order finds nothing wrong.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

from turnwise.facts.content import ThinkingPart, ToolCallPart
from turnwise.facts.events import LIMIT, USER, Event
from turnwise.facts.sessions import TEMP_PREFIX
from turnwise.facts.usage import Usage
from turnwise.gateway.ag_ui.client_messages import ClientMessages
from turnwise.gateway.ag_ui.history import as_text, result_id
from turnwise.gateway.ag_ui.schema import Wire, custom, event
from turnwise.gateway.ag_ui.speakers import TurnSteps
from turnwise.gateway.ag_ui.state import ClientStateMirror
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.tool_calls import arguments_of, calls_in
from turnwise.gateway.shared.utterances import COMPLETE_ENDS, is_shown_to_user, shown_text
from turnwise.runner import Result
from turnwise.transcript.waits import kind_of


class TextStreams:
    """The texts of one kind, by id. span: what is opened around each of them, if anything is."""

    def __init__(self, kind: str, span: str = "") -> None:
        self._kind, self._span = kind, span
        self._open: dict[str, _OpenText] = {}

    @property
    def open(self) -> list[str]:
        """The ids of those that are begun and not ended."""
        return list(self._open)

    def is_open(self, id_: str) -> bool:
        return id_ in self._open

    def piece(self, id_: str, text: str, offset: int | None, **about: Any) -> Iterator[Wire]:
        """The next piece of that text. offset: where in the text it stands; None = next. What leaves a gap is put aside, and
        so is all of a text whose beginning did not come: the whole will tell it. about: what its opening tells.
        """
        coming = self._open.get(id_)
        if coming is None:
            if offset:
                return
            coming = self._open[id_] = _OpenText(about.get("subagentRunId"))
            yield from self._begin(id_, about)
        if delta := coming.take(text, offset):
            yield self._delta(id_, delta, coming.tag)

    def whole(self, id_: str, text: str, **about: Any) -> Generator[Wire, None, bool]:
        """All of that text, which is its end. Gives whether the client has it now as it is."""
        tag = about.get("subagentRunId")
        if id_ not in self._open:
            self._open[id_] = _OpenText(tag)
            yield from self._begin(id_, about)
        told = self._open[id_].told
        fits = text.startswith(told)
        if fits and text != told:
            yield self._delta(id_, text[len(told) :], tag)
        yield from self.end(id_)
        return fits

    def end(self, id_: str) -> Iterator[Wire]:
        """That text ends here, if it was begun."""
        coming = self._open.pop(id_, None)
        if coming is not None:
            yield event(f"{self._kind}_END", messageId=id_, subagentRunId=coming.tag)
            if self._span:
                yield event(f"{self._span}_END", messageId=id_, subagentRunId=coming.tag)

    def end_all(self) -> Iterator[Wire]:
        """Whatever was begun ends here."""
        for id_ in list(self._open):
            yield from self.end(id_)

    def _begin(self, id_: str, about: dict[str, Any]) -> Iterator[Wire]:
        if self._span:
            yield event(f"{self._span}_START", messageId=id_, subagentRunId=about.get("subagentRunId"))
        yield event(f"{self._kind}_START", messageId=id_, **about)

    def _delta(self, id_: str, text: str, tag: str | None) -> Wire:
        return event(f"{self._kind}_CONTENT", messageId=id_, delta=text, subagentRunId=tag)


class _OpenText:
    """A text that comes bit by bit. told: what was told of it."""

    def __init__(self, tag: str | None) -> None:
        self.tag = tag
        self._pieces: list[str] = []
        self._length = 0
        self._torn = False

    @property
    def told(self) -> str:
        return "".join(self._pieces)

    def take(self, text: str, offset: int | None) -> str:
        """What is new in that piece."""
        missing = 0 if offset is None else offset - self._length
        self._torn |= missing > 0
        if self._torn:
            return ""
        new = text[-missing:] if missing < 0 else text
        if missing < 0 and -missing >= len(text):
            return ""
        self._pieces.append(new)
        self._length += len(new)
        return new


class RunEvents:
    """Tells one run to one reader."""

    def __init__(self, view: Redactor, speakers: TurnSteps, ledger: ClientMessages, mirror: ClientStateMirror) -> None:
        self._view, self.speakers, self._ledger, self._mirror = view, speakers, ledger, mirror
        self._texts, self._thoughts = TextStreams("TEXT_MESSAGE"), TextStreams("REASONING_MESSAGE", "REASONING")
        self._before: set[str] = set()
        self._made: dict[str, str | None] = {}
        self._thought: set[str] = set()

    @property
    def pending(self) -> list[str]:
        """The calls that were told, and not what they gave, in their order."""
        return [call_id for call_id in self._made if self._ledger.is_open(call_id)]

    def know(self, before: Iterable[Event]) -> None:
        """That was told of the invocation before, in another run: what its calls give may still be told."""
        self._before |= {made.call.call_id for made in calls_in(map(self._view.event, before)) if made.kind == "late"}

    def tell(self, said: Event) -> Iterator[Wire]:
        """What that event of the log, or that piece of one, adds."""
        if said.partial:
            yield from self._piece(said)
            return
        shown = self._view.event(said)
        if said.actions.rewind is not None:
            yield from self._break_off()
            self._ledger.take_back(said.actions.rewind.from_sequence)
            yield from self._put_right()
        if said.author == USER:
            yield from self._acts(shown, None)
            if said.actions.selection is not None:
                yield from self.speakers.begin(said.actions.selection.agent)
            return
        tag = self.speakers.tag(said)
        says = list(self._says(shown, tag))
        if said.is_private and not says:  # who is only called by another is not heard
            yield from self._acts(shown, None)
        elif wires := [*says, *self._acts(shown, tag)]:
            yield from self.speakers.announce(said)
            yield from wires
        yield from self._moves(shown)

    def close(self) -> Iterator[Wire]:
        """Whoever is still speaking will not come to an end; the messages are put right, if they are not."""
        yield from self._break_off()
        yield from self._put_right()

    def _piece(self, said: Event) -> Iterator[Wire]:
        shown, tag = self._view.event(said), self.speakers.tag(said)
        wires: list[Wire] = []
        if thought := _thought(shown):
            self._thought.add(_thinking(said))
            wires += self._thoughts.piece(_thinking(said), thought, None, role="reasoning", subagentRunId=tag)
        if said.text and is_shown_to_user(said) and not self._ledger.holds(said.id):
            wires += self._thoughts.end(_thinking(said))
            wires += self._texts.piece(said.id, said.text, said.offset, role="assistant", name=said.author, subagentRunId=tag)
        if wires:
            yield from self.speakers.announce(said)
            yield from wires

    def _says(self, shown: Event, tag: str | None) -> Iterator[Wire]:
        """What is thought, said, called, and what calls gave."""
        yield from self._thinking(shown, tag)
        yield from self._text(shown, shown_text(shown), tag)
        if shown.content is None:
            return
        for part in shown.content.tool_calls:
            if kind_of(part, shown) != "confirm":
                yield from self._call(shown, part, tag)
        for result in shown.content.tool_results:
            if result.call_id in self._before or self._ledger.has_call(result.call_id):
                yield from self._result(shown, result.call_id, as_text(result.result), tag)

    def _thinking(self, shown: Event, tag: str | None) -> Iterator[Wire]:
        id_, thought = _thinking(shown), _thought(shown)
        if self._thoughts.is_open(id_) or (thought and id_ not in self._thought and not self._ledger.holds(id_)):
            yield from self._thoughts.whole(id_, thought, role="reasoning", subagentRunId=tag)
        self._thought.add(id_)

    def _text(self, shown: Event, text: str, tag: str | None) -> Iterator[Wire]:
        held = self._ledger.holds(shown.id)
        if held:  # as it stands here, if at all
            self._ledger.drop([shown.id])
        if text:
            self._ledger.say(shown, text, tag)
        if text and not held:
            fits = yield from self._texts.whole(shown.id, text, role="assistant", name=shown.author, subagentRunId=tag)
            self._ledger.is_wrong |= not fits

    def _call(self, shown: Event, part: ToolCallPart, tag: str | None) -> Iterator[Wire]:
        self._ledger.call(shown, part, tag)
        id_ = part.call_id
        if id_ in self._before or self._ledger.holds_call(id_) or self._made.setdefault(id_, tag) != tag:
            self._ledger.is_wrong = True
            return
        yield event("TOOL_CALL_START", toolCallId=id_, toolCallName=part.tool, parentMessageId=shown.id, subagentRunId=tag)
        yield event("TOOL_CALL_ARGS", toolCallId=id_, delta=arguments_of(part), subagentRunId=tag)
        yield event("TOOL_CALL_END", toolCallId=id_, subagentRunId=tag)

    def _result(self, shown: Event, call_id: str, content: str, tag: str | None) -> Iterator[Wire]:
        id_ = result_id(call_id)
        self._ledger.result(shown, call_id, content, tag)
        if self._ledger.holds(id_):
            self._ledger.is_wrong = True
            return
        yield event(
            "TOOL_CALL_RESULT",
            messageId=id_,
            toolCallId=call_id,
            content=content,
            role="tool",
            subagentRunId=tag,
        )

    def _acts(self, shown: Event, tag: str | None) -> Iterator[Wire]:
        """What is kept and decided."""
        actions = shown.actions
        if actions.artifact_versions:
            yield custom("artifacts", dict(actions.artifact_versions), tag)
        kept = {key: value for key, value in actions.state_delta.items() if not key.startswith(TEMP_PREFIX)}
        yield from self._mirror.change(kept, tag)
        if actions.selection is not None:
            yield custom("selection", actions.selection.model_dump(mode="json"), tag)

    def _moves(self, shown: Event) -> Iterator[Wire]:
        """Where the floor goes."""
        if shown.error is not None:
            yield from self.speakers.fail(shown, shown.error.message, shown.error.code)
        yield from self.speakers.finished(shown)
        if shown.actions.transfer_to is not None:
            yield from self._break_off()
            yield from self.speakers.hand_over(shown.actions.transfer_to)

    def _put_right(self) -> Iterator[Wire]:
        if self._ledger.is_wrong:
            self._ledger.is_wrong = False
            yield event("MESSAGES_SNAPSHOT", messages=self._ledger.messages())

    def _break_off(self) -> Iterator[Wire]:
        yield from self._thoughts.end_all()
        self._ledger.drop(self._texts.open)
        yield from self._texts.end_all()


def _thinking(said: Event) -> str:
    """The id of what was thought for the event."""
    return f"{said.id}:thinking"


def _thought(shown: Event) -> str:
    parts = shown.content.parts if shown.content else ()
    return "\n".join(part.text for part in parts if isinstance(part, ThinkingPart) and part.text)


def is_failed(result: Result) -> bool:
    """Whether the answer failed: it did not if it was stopped, by whomever, or waits."""
    reason = result.end.reason if result.end else ""
    return bool(reason) and reason not in COMPLETE_ENDS and not is_stopped(result)


def is_stopped(result: Result) -> bool:
    """Whether the answer was stopped before it was whole: by somebody, or by a limit."""
    reason = result.end.reason if result.end else ""
    return reason == "cancelled" or (reason.startswith(LIMIT) and reason not in COMPLETE_ENDS)


def outcome_of(result: Result | None, interrupts: Sequence[Wire], pending: Sequence[str]) -> Wire:
    """The outcome of a run that did not fail. result: None = nothing was answered. pending: calls without a result."""
    if result is not None and is_stopped(result):
        return {"type": "cancelled"}
    if interrupts:
        return {"type": "interrupt", "interrupts": list(interrupts)}
    return {"type": "success", **({"pendingToolCallIds": list(pending)} if pending else {})}


def usage_of(events: Iterable[Event]) -> list[Wire] | None:
    """What models took for these events, model by model, as far as they said; None when they said nothing."""
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
