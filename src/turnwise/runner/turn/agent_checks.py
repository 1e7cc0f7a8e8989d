"""Checks of what agents do: the sizes and the JSON form of their output, and calls that they made without `await`.

A call without `await` does nothing, and Python warns too late.
"""

import asyncio
import inspect
import json
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from pydantic import JsonValue

from turnwise.facts.content import (
    DEEPEST,
    BlobPart,
    Content,
    DataPart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    holds_deep,
    is_deep,
    least_bytes,
)
from turnwise.facts.errors import AgentFailed, LimitReached
from turnwise.facts.events import Event
from turnwise.facts.fact import Fact
from turnwise.facts.limits import Limits

PIECE_BYTES = 16
"""The minimum that one streamed piece counts, since each piece is an event until the answer is complete."""

LONG_BYTES = 64 * 1024
"""Content of this size or more is checked in a thread."""

P = ParamSpec("P")
T = TypeVar("T")

F = TypeVar("F", bound=Callable[..., Any])


class AnswerSize:
    """Counts the output of the agents of one invocation. Sizes are bytes."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pieces: dict[str, int] = {}
        self._total = 0

    def check_content(self, event: Event) -> None:
        """Checks the sizes that are known without serializing the event. Raises LimitReached (answer_bytes, blob_bytes)."""
        if event.content is None:
            return
        blobs = sum(len(part.data) for part in event.content.parts if isinstance(part, BlobPart))
        if blobs > self._limits.blob_bytes:
            raise LimitReached("blob_bytes", f"The files in an answer of {event.author!r} have {blobs:,} bytes.")
        self._check(event.author, self._least_bytes(event.content))

    def check_value(self, author: str, value: object) -> None:
        """Raises LimitReached (answer_bytes) when the value is certainly too large as JSON. Stops counting at the limit."""
        self._check(author, least_bytes(value, self._limits.answer_bytes))

    def add_piece(self, event_id: str, author: str, content: Content) -> None:
        """Counts one piece of a streamed answer. Raises LimitReached (answer_bytes)."""
        size = self._pieces.get(event_id, 0) + max(PIECE_BYTES, self._least_bytes(content))
        self._pieces[event_id] = size
        self._check(author, size)

    def add(self, event: Event, size: int) -> None:
        """Counts a complete event. Raises LimitReached (answer_bytes, invocation_bytes).

        Args:
            size: The bytes of the event's JSON, without files.
        """
        self._pieces.pop(event.id, None)
        self._check(event.author, size)
        self._total += size
        if self._total > self._limits.invocation_bytes:
            raise LimitReached("invocation_bytes", f"The invocation stored {self._total:,} bytes.")

    def _check(self, author: str, size: int) -> None:
        """Raises LimitReached if one answer has more than `answer_bytes`."""
        if size > self._limits.answer_bytes:
            raise LimitReached(
                "answer_bytes",
                f"One answer of {author!r} has {size:,} bytes or more, {self._limits.answer_bytes:,} are allowed.",
                fix="Save it as an artifact, or raise limits.answer_bytes.",
            )

    def _least_bytes(self, content: Content) -> int:
        return sum(_least_bytes_of(part, self._limits.answer_bytes) for part in content.parts)


def is_long_content(content: Content | None) -> bool:
    """Returns whether a content is so long that its checks would hold the event loop."""
    parts = () if content is None else content.parts
    return sum(_least_bytes_of(part, LONG_BYTES) for part in parts) > LONG_BYTES


def check_storable(fact: Fact, author: str) -> int:
    """Checks that a fact can be written as JSON and read back.

    Returns:
        The bytes of the fact's JSON, without files.

    Raises:
        AgentFailed: The value is nested too deeply, holds NaN or infinity, or cannot be serialized.
    """
    content = fact.content if isinstance(fact, Event) else fact
    if isinstance(content, Content) and holds_deep(content):
        raise AgentFailed(f"{author!r} emitted a value that is nested more than {DEEPEST} levels deep.")
    for what, value in _values(fact):
        if not _is_finite(value):
            raise AgentFailed(f"{author!r} emitted {what} with NaN or an infinite number, which JSON cannot write.")
    parts = content.parts if isinstance(content, Content) else ()
    files = sum(len(part.data) for part in parts if isinstance(part, BlobPart))
    try:
        return len(fact.model_dump_json().encode()) - files * 4 // 3
    except ValueError as error:
        raise AgentFailed(f"{author!r} emitted a value that cannot be stored: {error}") from None


def as_json(what: str, value: object) -> JsonValue:
    """Returns a JSON copy of the value, so that later changes of the original do not reach the log. Raises AgentFailed."""
    if is_deep(value):
        raise AgentFailed(f"{what} is nested more than {DEEPEST} levels deep, and could not be read again.")
    try:
        copied: JsonValue = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise AgentFailed(f"{what} cannot be stored: {error}.", fix="Only JSON values can.") from None
    return copied


class Unawaited:
    """The calls of one agent run that were not awaited yet. A sync function may add calls from a thread."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, Coroutine[Any, Any, Any]]] = []

    def note(self, call: str, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._calls = [*self._open(), (call, coroutine)]

    async def check(self, agent: str) -> None:
        """Raises AgentFailed with the first call that was never awaited. Lets pending tasks start before it checks."""
        if self._open():
            await asyncio.sleep(0)
        forgotten, self._calls = self._open(), []
        for _, coroutine in forgotten:
            coroutine.close()
        if forgotten:
            call = forgotten[0][0]
            raise AgentFailed(
                f"Agent {agent!r} called {call}() without `await`, so nothing was done.",
                fix=f"Write `await {call}(…)`, in an `async def` function.",
            )

    def _open(self) -> list[tuple[str, Coroutine[Any, Any, Any]]]:
        return [each for each in self._calls if inspect.getcoroutinestate(each[1]) == inspect.CORO_CREATED]


class _Notes(Protocol):
    unawaited: Unawaited


S = TypeVar("S", bound=_Notes)


def awaited(
    call: str,
) -> Callable[[Callable[Concatenate[S, P], Coroutine[Any, Any, T]]], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]]:
    """Marks a method that must be awaited.

    Args:
        call: The expression that the agent's developer writes, such as `context.ask`.
    """

    def wrap(
        method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
        method.__qualname__ = call  # Python's own errors show this name

        @wraps(method)
        def noted(self: S, *arguments: P.args, **named: P.kwargs) -> Coroutine[Any, Any, T]:
            coroutine = method(self, *arguments, **named)
            self.unawaited.note(call, coroutine)
            return coroutine

        return noted  # type: ignore[return-value]  # a wrapper's `self` may be given by name, too

    return wrap


def named(place: str) -> Callable[[F], F]:
    """Sets the name that Python shows in its own errors, such as for a missing argument."""

    def rename(method: F) -> F:
        method.__qualname__ = place
        return method

    return rename


def no_attribute(place: str, hint: str = "") -> Callable[[Any, str], Any]:
    """Returns a `__getattr__` that raises a readable AttributeError.

    Args:
        place: The expression that lacks the attribute, such as `context.state`.
        hint: Text appended to the error; `{}` is replaced by the attribute's name.
    """

    def __getattr__(self: Any, name: str) -> Any:
        more = f" {hint.format(name)}" if hint else ""
        raise AttributeError(f"{place} has no attribute {name!r}.{more}", name=name, obj=self)

    return __getattr__


def _least_bytes_of(part: Part, most: int) -> int:
    """Returns a lower bound of the part's size as JSON, without serialising it."""
    match part:
        case TextPart() | ThinkingPart():
            return len(part.text)
        case ToolCallPart():
            return len(part.raw or "") + least_bytes(part.arguments, most)
        case ToolResultPart():
            return least_bytes(part.result, most)
        case DataPart():
            return least_bytes(part.data, most)
    return 0


def _values(fact: Fact) -> Iterator[tuple[str, object]]:
    """Yields the values that an agent chose freely in an event or a content, each with a description for error texts."""
    content = fact.content if isinstance(fact, Event) else fact
    for part in content.parts if isinstance(content, Content) else ():
        if isinstance(part, DataPart):
            yield "data", part.data
        elif isinstance(part, ToolCallPart):
            yield f"a call of {part.tool!r}", part.arguments
        elif isinstance(part, ToolResultPart):
            yield f"a result of {part.tool!r}", part.result
    if isinstance(fact, Event):
        for key, value in fact.actions.state_delta.items():
            yield f"a value for {key!r} in the state", value


def _is_finite(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True
