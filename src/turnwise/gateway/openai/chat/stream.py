"""Streams a chat completion as chunks: role, text, tool calls, finish reason and usage."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from fastapi import Request
from fastapi.sse import EventSourceResponse, format_sse_event
from pydantic import BaseModel

from turnwise.facts.errors import Closing, TurnwiseError
from turnwise.facts.events import Event
from turnwise.facts.fact import replaced
from turnwise.gateway.front import Front, redactor_of, services_of
from turnwise.gateway.openai.chat.completion import (
    OpenCalls,
    call_of,
    decision_metadata,
    failure_of,
    fingerprint_of,
    finish_of,
    open_calls,
    usage_of,
)
from turnwise.gateway.openai.chat.schema import Chunk, ChunkChoice, Finish, Head
from turnwise.gateway.openai.errors import Refusal, error_of
from turnwise.gateway.problems import Problem, problem_of
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.stream import MessageAborted, MessageCompleted, MessageStarted, ReaderStream, StreamItem, TextPiece
from turnwise.gateway.sse import event_stream
from turnwise.runner import Invocation, Result

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
