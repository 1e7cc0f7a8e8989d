"""Prepares the conversation for a model provider."""

import asyncio
import hashlib
import re
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from turnwise.facts.content import (
    ArtifactPart,
    BlobPart,
    Content,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)

_SEALED = (TextPart, ThinkingPart, ToolCallPart)
_GIVEN = {"role", "parts"}


def outgoing(messages: Sequence[Content], system: str) -> list[Content]:
    """Returns the conversation as the provider `system` may receive it, in alternating roles.

    Seals (provider-signed data) go only to the provider that made them, and thinking only if this provider sealed it. Files of
    agents and references to files become their names. Empty messages are left out. Adjacent messages of one role are joined,
    with tool results first.
    """
    turns: list[tuple[Role, list[Part]]] = []
    for content in messages:
        parts = _outgoing_parts(content, system)
        if parts and turns and turns[-1][0] == content.role:
            turns[-1][1].extend(parts)
        elif parts:
            turns.append((content.role, parts))
    # Without validation: the parts were validated when they were read, and there may be thousands of messages.
    return [Content.of_valid({"role": role, "parts": _results_first(parts)}, _GIVEN) for role, parts in turns]


def _outgoing_parts(content: Content, system: str) -> list[Part]:
    parts = content.parts
    if len(parts) == 1 and type(parts[0]) is TextPart and parts[0].seal is None:  # the usual message
        return [parts[0]] if parts[0].text else []
    return [sent for part in parts for sent in _outgoing_part(part, content.role, system)]


def _outgoing_part(part: Part, role: Role, system: str) -> Iterator[Part]:
    """Yields the part as that provider may get it: foreign seals removed, other files as text."""
    if isinstance(part, _SEALED) and part.seal is not None and part.seal.provider != system:
        part = part.replace(seal=None)
    match part:
        case TextPart() if part.text:
            yield part
        case ThinkingPart() if part.seal is not None and part.seal.data != {"id": "content"}:
            yield part  # thinking that came as tags in the text ("content") is useless to a later call
        case ToolCallPart() | ToolResultPart():
            yield part
        case BlobPart() if role == "user":
            yield part
        case BlobPart():
            yield TextPart(text=f"[file: {part.name or part.mime_type}]")
        case ArtifactPart():
            yield TextPart(text=f"[file: {part.title or part.name}]")


def _results_first(parts: Sequence[Part]) -> tuple[Part, ...]:
    return tuple(parts if len(parts) == 1 else sorted(parts, key=lambda part: not isinstance(part, ToolResultPart)))


_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,40}")


class WireIds:
    """Maps our call ids to unique ids that every provider accepts, within one request to the provider `system`.

    A provider gets its own id back where possible, since its signature covers the id.
    """

    def __init__(self, system: str) -> None:
        self._system = system
        self._ids: dict[str, str] = {}
        self._used: set[str] = set()

    def of_call(self, part: ToolCallPart) -> str:
        """Returns the id of a call for this provider: its own where it is known, and unique in the request."""
        own = part.seal.data.get("call_id") if part.seal and part.seal.provider == self._system else None
        id_ = own if isinstance(own, str) and own not in self._used else _plain(part.call_id)
        while id_ in self._used:
            id_ = _hashed(id_)
        self._used.add(id_)
        self._ids[part.call_id] = id_
        return id_

    def of_result(self, call_id: str) -> str:
        """Returns the id of the latest call with this call id."""
        return self._ids.get(call_id) or _plain(call_id)


def _plain(call_id: str) -> str:
    return call_id if _PLAIN.fullmatch(call_id) else _hashed(call_id)


def _hashed(call_id: str) -> str:
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:24]


T = TypeVar("T")
_LoopValues = dict[Hashable, tuple[Any, AsyncGenerator[None, None]]]

_lock = threading.Lock()
_values: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopValues] = weakref.WeakKeyDictionary()


async def loop_local(key: Hashable, make: Callable[[], AbstractAsyncContextManager[T]]) -> T:
    """Returns the value of this key in the running loop, and creates it at the first call.

    Args:
        key: The key of the value.
        make: Creates the value, in a thread, since it may import much. Its error is raised here, and the next call tries again.

    Returns:
        The value. Its context is exited when the loop shuts down.
    """
    values = _loop_values()
    if key not in values:
        value = await asyncio.to_thread(make)
        if key not in values:  # otherwise another task created it meanwhile, and this one is dropped unused
            closer = _until_shutdown(value, values, key)
            values[key] = (value, closer)
            await anext(closer)
    found: T = values[key][0]
    return found


async def _until_shutdown(
    value: AbstractAsyncContextManager[T], values: _LoopValues, key: Hashable
) -> AsyncGenerator[None, None]:
    """Keeps a value of an event loop open until the loop ends."""
    # A loop closes its unfinished generators when it shuts down: the only moment at which a client can still be closed.
    async with value:
        try:
            yield
        finally:
            del values[key]


def _loop_values() -> _LoopValues:
    loop = asyncio.get_running_loop()
    with _lock:
        for closed in [other for other in _values if other.is_closed()]:
            del _values[closed]  # closed without a shutdown; its values would keep it alive
        return _values.setdefault(loop, {})
