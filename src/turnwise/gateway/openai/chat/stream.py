"""Writes a chat completion: whole, or as a stream of chunks with role, text, tool calls, finish reason and usage."""

from collections.abc import AsyncIterator, Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.sse import EventSourceResponse, format_sse_event
from pydantic import BaseModel

from turnwise.facts.content import ToolCallPart
from turnwise.facts.errors import Closing, TurnwiseError
from turnwise.facts.events import LIMIT, Event
from turnwise.facts.fact import replaced
from turnwise.facts.ids import Issuer, SystemIssuer
from turnwise.facts.waits import Wait, calls_in, is_late
from turnwise.gateway.front import Front, redactor_of, services_of
from turnwise.gateway.openai.chat.schema import (
    AssistantMessage,
    Call,
    ChatCompletion,
    ChatUsage,
    Choice,
    Chunk,
    ChunkChoice,
    Finish,
    Function,
    Head,
    PromptTokens,
)
from turnwise.gateway.openai.errors import Refusal, error_of
from turnwise.gateway.problems import Problem, problem_of, request_id_of, status_of
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.content import arguments_of
from turnwise.gateway.shared.stream import (
    COMPLETE_ENDS,
    DecisionInfo,
    MessageAborted,
    MessageCompleted,
    MessageStarted,
    ReaderStream,
    StreamItem,
    TextPiece,
    failure_text,
    joined_text,
    shown_text,
    token_usage,
)
from turnwise.gateway.sse import event_stream
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


NEWLINE = "\n"
"""Separates the texts of different events."""


class AnswerText:
    """Turns the events of a message, including partial ones, into new pieces of the answer's text.

    Only one event is streamed piece by piece at a time. Text of parallel agents follows when it is complete. Partial
    text of a model or process that broke off cannot be withdrawn.
    """

    def __init__(self) -> None:
        self._stream = ReaderStream(serial=True)
        self._any_sent = False
        self._open: Event | None = None
        self._waiting: list[str] = []

    def feed(self, event: Event) -> str:
        """Returns the new text; often ""."""
        return "".join(map(self._text, self._stream.feed(event)))

    def rest(self) -> str:
        """Returns the text that remains at the end."""
        self._open = None
        return self._take_waiting()

    def _text(self, item: StreamItem) -> str:
        """Returns the text to send for one stream item. Texts of parallel agents wait until the open message is complete."""
        match item:
            case MessageStarted(event):
                self._open = event
                return self._take_waiting() + self._line("")
            case TextPiece(event, text) if self._is_open(event):
                return text
            case MessageAborted(event) if self._is_open(event):
                return self.rest()
            case MessageCompleted(event, text, sent) if self._is_open(event):
                self._open = None
                return _missing(text, sent) + self._take_waiting()
            case MessageCompleted(event, text) if text and self._open is not None and self._open.branch != event.branch:
                self._waiting.append(text)
            case MessageCompleted(_, text) if text:
                self._open = None
                return self._take_waiting() + self._line(text)
        return ""

    def _is_open(self, event: Event) -> bool:
        return self._open is not None and self._open.id == event.id

    def _take_waiting(self) -> str:
        waiting, self._waiting = self._waiting, []
        return "".join(map(self._line, waiting))

    def _line(self, text: str) -> str:
        lead, self._any_sent = NEWLINE if self._any_sent else "", True
        return lead + text


def _missing(text: str, said: str) -> str:
    """Returns the part of the text that was not sent yet. Pieces lack the newlines between the parts of a text."""
    if text.startswith(said):
        return text[len(said) :]
    place = 0
    for character in said:
        if place < len(text) and text[place] == NEWLINE and character != NEWLINE:
            place += 1
        if place == len(text) or text[place] != character:
            return NEWLINE + text
        place += 1
    return text[place:]


DONE = format_sse_event(data_str="[DONE]")


def stream(
    front: Front, request: Request, invocation: Invocation, head: Head, *, usage: bool, headers: dict[str, str]
) -> EventSourceResponse:
    """Returns the streamed response. `usage` adds a last chunk with the token usage. The run continues if the client
    disconnects.
    """
    closing = Closing("This process is being stopped.", fix="Send it again.")
    hint = _serialized(_error_body(problem_of(closing, request)))
    items = _chunks(request, invocation, _Chunks(head, invocation, redactor_of(request), usage=usage))
    response = event_stream(items, _serialized, ping=front.config.stream_ping_seconds, closing=front.closing, hint=hint)
    response.headers.update(headers)
    return response


async def _chunks(request: Request, invocation: Invocation, chunks: "_Chunks") -> AsyncIterator[BaseModel | None]:
    """Yields the chunks, or an error; None marks the end."""
    answer = AnswerText()
    try:
        yield chunks.role()
        async for event in invocation.events():
            if text := answer.feed(event):
                yield chunks.text(text)
        if text := answer.rest():
            yield chunks.text(text)
        result = await invocation.result()
        if (failure := failure_of(result, redactor_of(request), request)) is not None:
            yield _error_body(failure)
            return
        waits = await services_of(request).invocations.waits(invocation, result)
        for chunk in chunks.end(result, open_calls(waits, result, redactor_of(request))):
            yield chunk
        yield None
    except TurnwiseError as error:
        yield _error_body(problem_of(error, request))


class _Chunks:
    """Builds the chunks of one completion."""

    def __init__(self, head: Head, invocation: Invocation, view: Redactor, *, usage: bool) -> None:
        self._head, self._invocation, self._view, self._usage = head, invocation, view, usage

    def role(self) -> Chunk:
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    def text(self, text: str) -> Chunk:
        return self._chunk({"content": text})

    def end(self, result: Result, open_: OpenCalls) -> Iterator[Chunk]:
        """Yields the awaited tool calls, the finish reason and the usage."""
        for place, call in enumerate(map(call_of, open_.calls)):
            begun = {
                "index": place,
                "id": call.id,
                "type": call.type,
                "function": {"name": call.function.name, "arguments": ""},
            }
            yield self._chunk({"tool_calls": [begun]})
            yield self._chunk({"tool_calls": [{"index": place, "function": {"arguments": call.function.arguments}}]})
        self._head = replaced(self._head, system_fingerprint=fingerprint_of(result))
        end = self._chunk({}, finish_of(result, open_.calls))
        yield replaced(end, turnwise=decision_metadata(self._invocation, result, open_, self._view))
        if self._usage:
            yield Chunk(**self._head.model_dump(), choices=[], usage=usage_of(result.events))

    def _chunk(self, delta: dict[str, Any], finish: Finish | None = None) -> Chunk:
        return Chunk(**self._head.model_dump(), choices=[ChunkChoice(delta=delta, finish_reason=finish)])


def _error_body(problem: Problem) -> Refusal:
    return Refusal(error=error_of(problem))


def _serialized(item: BaseModel | None) -> bytes:
    return DONE if item is None else format_sse_event(data_str=item.model_dump_json())
