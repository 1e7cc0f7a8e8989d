"""Models for tests: scripted, from a function, or recorded. They need no API key and no network."""

import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from turnwise.facts.content import Content, TextPart, ThinkingPart, ToolCallPart
from turnwise.facts.errors import ModelRefused
from turnwise.facts.usage import Usage
from turnwise.ports.model import ModelPiece, ModelReply, ModelRequest
from turnwise.testing.recorded_model import RecordedModel
from turnwise.testing.telling import pieces, stream_reply

__all__ = ["FunctionModel", "RecordedModel", "ScriptedModel", "calls"]

Part = str | TextPart | ThinkingPart | ToolCallPart
Reply = Part | Content | ModelReply | BaseException | Sequence[Part | BaseException] | Callable[[ModelRequest], Any]


def calls(tool: str, arguments: Mapping[str, JsonValue] | str | None = None) -> ToolCallPart:
    """A tool call for a script. Calls in one list run in parallel.

    The model sets the ids `call-1`, `call-2`, …, and starts again in each answer, as some providers do.

    Args:
        tool: the tool's name.
        arguments: a string stands for output of the model that is not a JSON object.
    """
    if isinstance(arguments, str):
        return ToolCallPart(call_id="", tool=tool, raw=arguments)
    return ToolCallPart(call_id="", tool=tool, arguments=dict(arguments or {}))


class FunctionModel:
    """Answers with the result of `function(request)`, which may be async. It may return anything that a ScriptedModel accepts
    as a reply.
    """

    def __init__(self, function: Callable[[ModelRequest], Any], *, name: str = "function:model") -> None:
        self._function, self._name = function, name

    @property
    def name(self) -> str:
        return self._name

    async def answer(self, request: ModelRequest, *, stream: bool) -> AsyncIterator[ModelPiece | ModelReply]:
        said = self._function(request)
        said = await said if inspect.isawaitable(said) else said
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, list | tuple) and not isinstance(said, ModelReply) and isinstance(said[-1], BaseException):
            for piece in pieces(_content(said[:-1])) if stream else ():
                yield piece
            raise said[-1]
        for part in stream_reply(_reply(said, self._name), stream=stream):
            yield part


class ScriptedModel:
    """Returns the given replies, one for each request, and records the requests.

    A reply is text, `calls(…)`, a list of both, a Content, a ModelReply, an error to raise, or a function of the request, async
    or not, that returns one of those. A list that ends with an error fails at that point. When streamed, text and arguments
    come in pieces of a few letters.

    Attributes:
        requests: the requests so far.

    Raises:
        ModelRefused: for a request after the last reply.
    """

    def __init__(self, *replies: Reply, name: str = "scripted:model") -> None:
        self._name, self._count, self._replies = name, len(replies), deque(replies)
        self.requests: list[ModelRequest] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def left(self) -> int:
        """How many replies are left."""
        return len(self._replies)

    def answer(self, request: ModelRequest, *, stream: bool) -> AsyncIterator[ModelPiece | ModelReply]:
        return FunctionModel(self._next, name=self._name).answer(request, stream=stream)

    def _next(self, request: ModelRequest) -> Any:
        self.requests.append(request)
        if not self._replies:
            problem = f"The script of {self._name} is over: it has {self._count} replies, and this is request"
            raise ModelRefused(f"{problem} {len(self.requests)}.", fix="Add a reply, or see in `requests` why it was asked.")
        reply = self._replies.popleft()
        return reply(request) if callable(reply) else reply


def _reply(said: Any, name: str) -> ModelReply:
    if isinstance(said, ModelReply):
        return said
    content = said if isinstance(said, Content) else _content([said] if isinstance(said, Part) else said)
    return ModelReply(content, Usage(model=name), "tool_calls" if content.tool_calls else "stop")


def _content(parts: Sequence[Part]) -> Content:
    made: list[TextPart | ThinkingPart | ToolCallPart] = []
    for part in parts:
        if isinstance(part, ToolCallPart) and not part.call_id:
            number = sum(isinstance(before, ToolCallPart) for before in made) + 1
            made.append(part.replace(call_id=f"call-{number}"))
        else:
            made.append(TextPart(text=part) if isinstance(part, str) else part)
    return Content(role="agent", parts=tuple(made))
