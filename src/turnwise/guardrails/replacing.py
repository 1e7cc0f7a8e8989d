"""A guardrail that puts labels in place of what its rules find, or blocks what holds it."""

import asyncio
from collections.abc import Callable, Collection
from typing import Literal, get_args

from pydantic import JsonValue

from turnwise.facts.content import (
    ArtifactPart,
    BlobPart,
    Content,
    DataPart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from turnwise.facts.errors import ConfigError
from turnwise.guardrails.rules import Find, kinds_in, with_labels
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place

Change = Callable[[str], str]

_LONG_NUMBER = 10**6
_LONG_BYTES = 16_384
"""From this size on a content is read in a thread: rules take microseconds a character, and others wait."""


async def map_strings_async(content: Content, place: Place, change: Change) -> Content:
    """As `map_strings`; a long content is read in a thread, so that the event loop serves others meanwhile."""
    if sum(_size(part) for part in content.parts) < _LONG_BYTES:
        return map_strings(content, place, change)
    return await asyncio.to_thread(map_strings, content, place, change)


def _size(part: Part) -> int:
    """Roughly how many characters are read of a part."""
    if isinstance(part, TextPart | ThinkingPart):
        return len(part.text)
    return 0 if isinstance(part, BlobPart | ArtifactPart) else len(part.model_dump_json())


def map_strings(content: Content, place: Place, change: Change) -> Content:
    """The content with every string as `change` gives it: texts, thoughts, data, results, arguments, names of files.

    Numbers of more than six digits are strings as well, if they would be changed. Calls are changed in their own place only.
    """
    return content.model_copy(update={"parts": tuple(_part(part, place, change) for part in content.parts)})


def _part(part: Part, place: Place, change: Change) -> Part:
    match part:
        case TextPart() | ThinkingPart():
            return part.model_copy(update={"text": change(part.text)})
        case DataPart():
            return part.model_copy(
                update={"data": _value(part.data, change), "name": change(part.name) if part.name else part.name}
            )
        case ToolResultPart():
            return part.model_copy(update={"result": _value(part.result, change)})
        case ToolCallPart() if place == "tool_call":
            raw = change(part.raw) if part.raw is not None else None
            return part.model_copy(update={"arguments": _value(part.arguments, change), "raw": raw})
        case BlobPart():
            return part.model_copy(update={"name": change(part.name) if part.name else part.name})
        case ArtifactPart():
            return part.model_copy(update={"title": change(part.title) if part.title else part.title})
        case _:
            return part


def _value(value: JsonValue, change: Change) -> JsonValue:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _value(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_value(item, change) for item in value]
    if isinstance(value, int) and abs(value) >= _LONG_NUMBER:
        text = str(value)
        left = change(text)
        return value if left == text else left
    return value


Action = Literal["rewrite", "block"]
ACTIONS: tuple[Action, ...] = get_args(Action)
PLACES: tuple[Place, ...] = get_args(Place)


class Replacing:
    """Looks at all strings of a content, nested ones too, at its `places`.

    what: what it looks for, in words that follow "holds". reach: how many characters it takes to recognise any of it.
    """

    def __init__(self, name: str, what: str, find: Find, *, reach: int, action: Action, places: Collection[Place]) -> None:
        self.name = name
        self.reach: int | None = reach if "answer" in checked_places(name, places) else 0
        self._what, self._find, self._places = what, find, frozenset(places)
        self._action = checked_action(name, action)

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        """Names the kinds of what was found, never what was found."""
        if place not in self._places:
            return ALLOW
        kinds: set[str] = set()

        def change(text: str) -> str:
            found = kinds_in(text, self._find)
            kinds.update(found)
            return with_labels(text, self._find) if found else text

        left = await map_strings_async(content, place, change)
        if not kinds:
            return ALLOW
        reason = f"It held {self._what}: {', '.join(sorted(kinds))}."
        return (
            GuardrailVerdict("block", reason=reason) if self._action == "block" else GuardrailVerdict("rewrite", left, reason)
        )


def checked_action(name: str, action: str) -> Action:
    """ConfigError for an action that there is not."""
    for known in ACTIONS:
        if action == known:
            return known
    raise ConfigError(f"The guardrail {name!r} cannot {action!r}.", fix="Its action is rewrite or block.")


def checked_places(name: str, places: Collection[str]) -> Collection[str]:
    """ConfigError for a place that there is not."""
    for place in places:
        if place not in PLACES:
            raise ConfigError(f"The guardrail {name!r} cannot stand at {place!r}.", fix=f"Places are {', '.join(PLACES)}.")
    return places
