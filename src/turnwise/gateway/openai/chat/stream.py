"""A chat completion as server-sent events: the role, the text in pieces, the calls, why it ends, and what it took."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from fastapi.sse import EventSourceResponse, format_sse_event
from pydantic import BaseModel
from starlette.requests import Request

from turnwise.facts.errors import Closing, TurnwiseError
from turnwise.gateway.front import Front, view_of
from turnwise.gateway.openai.chat.answer import (
    Waits,
    behind,
    call_of,
    failure_of,
    fingerprint_of,
    finish_of,
    usage_of,
    waits_of,
)
from turnwise.gateway.openai.chat.shape import Chunk, ChunkChoice, Finish, Head
from turnwise.gateway.openai.chat.telling import Telling
from turnwise.gateway.openai.form import Refusal, error_of
from turnwise.gateway.problems import Problem, problem_of
from turnwise.gateway.shown import View
from turnwise.gateway.sse import streamed
from turnwise.runner import Invocation, Result

DONE = format_sse_event(data_str="[DONE]")


def stream(
    front: Front, request: Request, invocation: Invocation, head: Head, *, usage: bool, headers: dict[str, str]
) -> EventSourceResponse:
    """The answer as it comes; `usage`: with what it took at the end. The run does not depend on its reader."""
    closing = Closing("This process is being stopped.", fix="Send it again.")
    hint = _written(_refused(problem_of(closing, request)))
    items = _told(front, request, invocation, _Chunks(head, invocation, view_of(request), usage=usage))
    response = streamed(items, _written, ping=front.config.stream_ping_seconds, closing=front.closing, hint=hint)
    response.headers.update(headers)
    return response


async def _told(front: Front, request: Request, invocation: Invocation, chunks: "_Chunks") -> AsyncIterator[BaseModel | None]:
    """The chunks, or what went wrong; None is the end."""
    telling = Telling()
    try:
        yield chunks.role()
        async for event in invocation.events():
            if text := telling.feed(event):
                yield chunks.text(text)
        if text := telling.rest():
            yield chunks.text(text)
        result = await invocation.result()
        if (failure := failure_of(result, view_of(request), request)) is not None:
            yield _refused(failure)
            return
        awaited = await front.conversations.open_calls(invocation, result)
        for chunk in chunks.end(result, waits_of(awaited, view_of(request))):
            yield chunk
        yield None
    except TurnwiseError as error:
        yield _refused(problem_of(error, request))


class _Chunks:
    """The chunks of one completion."""

    def __init__(self, head: Head, invocation: Invocation, view: View, *, usage: bool) -> None:
        self._head, self._invocation, self._view, self._usage = head, invocation, view, usage

    def role(self) -> Chunk:
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    def text(self, text: str) -> Chunk:
        return self._chunk({"content": text})

    def end(self, result: Result, waits: Waits) -> Iterator[Chunk]:
        """The calls that it awaits, why it ends, what it took."""
        for place, call in enumerate(map(call_of, waits.calls)):
            begun = {
                "index": place,
                "id": call.id,
                "type": call.type,
                "function": {"name": call.function.name, "arguments": ""},
            }
            yield self._chunk({"tool_calls": [begun]})
            yield self._chunk({"tool_calls": [{"index": place, "function": {"arguments": call.function.arguments}}]})
        self._head = self._head.model_copy(update={"system_fingerprint": fingerprint_of(result)})
        end = self._chunk({}, finish_of(result, waits.calls))
        yield end.model_copy(update={"turnwise": behind(self._invocation, result, waits, self._view)})
        if self._usage:
            yield Chunk(**self._head.model_dump(), choices=[], usage=usage_of(result.events))

    def _chunk(self, delta: dict[str, Any], finish: Finish | None = None) -> Chunk:
        return Chunk(**self._head.model_dump(), choices=[ChunkChoice(delta=delta, finish_reason=finish)])


def _refused(problem: Problem) -> Refusal:
    return Refusal(error=error_of(problem))


def _written(item: BaseModel | None) -> bytes:
    return DONE if item is None else format_sse_event(data_str=item.model_dump_json())
