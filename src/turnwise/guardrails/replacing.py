"""The base of guardrails that replace what their rules find with labels, or block it.

Rules read an ASCII view of the text.
"""

import asyncio
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import re2
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
    UnknownPart,
)
from turnwise.facts.errors import ConfigError
from turnwise.facts.fact import Fact
from turnwise.matching.normalize import strip_invisible
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place


@cache
def compiled(pattern: bytes) -> Any:
    """Returns the compiled pattern for `NormalizedText.data`. Cached."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    return re2.compile(pattern, options)


def spans(pattern: bytes, data: bytes, group: int = 0) -> Iterator[tuple[int, int]]:
    """Yields the spans of the pattern's matches, or of one of its groups; no two overlap."""
    for match in compiled(pattern).finditer(data):
        yield match.span(group)


def is_isolated(data: bytes, start: int, end: int, *, before: bytes = b"", after: bytes = b"") -> bool:
    """Returns whether a span is not part of a longer word or number.

    No ASCII letter or digit may touch it. Letters outside ASCII do not count: matches hold none, and many scripts have no
    spaces.

    Args:
        data: The normalized text.
        start: Start of the span.
        end: End of the span.
        before: Further characters that may not precede it. A full stop or comma counts only after a digit, a dash or slash only
            after a letter or digit.
        after: Further characters that may not follow it. They count only before a digit, as a full stop may end a sentence.
    """
    if start > 0 and (_is_word(data[start - 1]) or (data[start - 1] in before and _continues_before(data, start - 1))):
        return False
    if end >= len(data):
        return True
    continues = data[end] in after and data[end + 1 : end + 2].isdigit()
    return not (_is_word(data[end]) or continues)


def _is_word(byte: int) -> bool:
    """Returns whether the byte is an ASCII letter or digit."""
    return bytes([byte]).isalnum()


def _continues_before(data: bytes, at: int) -> bool:
    """Returns whether the character at `at` joins the text before it to the text after it."""
    previous = data[max(0, at - 1) : at]
    if data[at] in b".,":
        return previous.isdigit()
    return previous.isalnum() if data[at] in b"-/" else True


LETTER, OTHER = 0xE0, 0xA6
"""Bytes that stand for a letter, and for any other character, without an ASCII equivalent."""


class NormalizedText(NamedTuple):
    """A text as ASCII bytes, with a map back to the text."""

    data: bytes
    """ASCII stays. Look-alikes (full-width forms, other digits, dashes, spaces, quotes) become ASCII. Other letters become
    LETTER,
    anything else OTHER. Invisible characters are dropped.
    """
    places: tuple[int, ...] | None = None
    """The position in the text of each byte's character; None = the same positions."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Returns the span of the text that a span of the data covers, invisible characters included."""
        if self.places is None:
            return start, end
        return self.places[start], self.places[end - 1] + 1


def normalized(text: str) -> NormalizedText:
    """Normalizes a text. Accepts any text."""
    if text.isascii():
        return NormalizedText(text.encode())
    encoded = [_byte(char) for char in text]
    return NormalizedText(b"".join(encoded), tuple(position for position, byte in enumerate(encoded) if byte))


@lru_cache(maxsize=4_096)
def _byte(char: str) -> bytes:
    """Returns the ASCII byte that rules see for a character; none for an invisible one."""
    if char.isascii():
        return char.encode()
    if not strip_invisible(char):
        return b""
    plain = unicodedata.normalize("NFKC", char)
    if len(plain) == 1 and plain.isascii():
        return plain.encode()
    digit, category = unicodedata.decimal(char, None), unicodedata.category(char)
    if digit is not None:
        return b"%d" % digit
    if category == "Pd":
        return b"-"
    if category in {"Pi", "Pf"}:
        return b'"'
    if char.isspace():
        return b" "
    return bytes([LETTER if char.isalnum() or category.startswith("M") else OTHER])


class Finding(NamedTuple):
    """A match: its span in `NormalizedText.data` and its kind."""

    start: int
    end: int
    kind: str


Find = Callable[[bytes], Iterable[Finding]]
"""Returns the findings of a rule, in any order; no two overlap. A match holds a character that no label has."""


def kinds_in(text: str, find: Find) -> set[str]:
    """Returns the kinds of the findings in the text."""
    return {finding.kind for finding in find(normalized(text).data)}


def with_labels(text: str, find: Find) -> str:
    """Returns the text with `[kind]` in place of each finding, repeated until nothing is found. Idempotent."""
    while found := sorted(find((reading := normalized(text)).data)):
        pieces, at = [], 0
        for finding in found:
            start, end = reading.span(finding.start, finding.end)
            pieces += [text[at:start], f"[{finding.kind}]"]
            at = end
        text = "".join((*pieces, text[at:]))
    return text


Change = Callable[[str], str]
F = TypeVar("F", bound=Fact)

_LONG_NUMBER = 10**6
_LONG_BYTES = 16_384
"""Content of this size or more is checked in a thread: rules take microseconds per character and would block the event loop."""


async def map_strings_async(content: Content, place: Place, change: Change) -> Content:
    """Does the same as `map_strings`, in a thread if the content is long."""
    if sum(_size(part) for part in content.parts) < _LONG_BYTES:
        return map_strings(content, place, change)
    return await asyncio.to_thread(map_strings, content, place, change)


def _size(part: Part) -> int:
    """Returns roughly how many characters of a part are checked."""
    if isinstance(part, TextPart | ThinkingPart):
        return len(part.text)
    return 0 if isinstance(part, BlobPart | ArtifactPart) else len(part.model_dump_json())


WITHHELD = "withheld"
"""Replaces a tool's name, or the kind of an unknown part, that holds a finding."""
_NO_TYPE = "application/octet-stream"
"""Replaces a MIME type that holds a finding."""


def map_strings(content: Content, place: Place, change: Change) -> Content:
    """Returns the content with `change` applied to every string: texts, thoughts, data, results, arguments, file names,
    and fields of newer versions.

    A number of more than six digits is checked as a string; if it changes, a string replaces it. A MIME type or a tool's
    name that changes is replaced whole. The arguments of tool calls are changed at the place `tool_call` only.
    """
    parts = tuple(_with_extra(_part(part, place, change), change) for part in content.parts)
    return _with_extra(content.replace(parts=parts), change)


def _with_extra(fact: F, change: Change) -> F:
    """Returns the fact with `change` applied to the fields that this version does not know."""
    extra = fact.model_extra
    if not extra:
        return fact
    copy = fact.model_copy()
    object.__setattr__(copy, "__pydantic_extra__", _value(extra, change))
    return copy


def _or_instead(text: str, change: Change, instead: str) -> str:
    """Returns the text if `change` leaves it unchanged, else `instead`."""
    return text if change(text) == text else instead


def _part(part: Part, place: Place, change: Change) -> Part:
    """Returns the part with all its texts changed."""
    match part:
        case TextPart() | ThinkingPart():
            return part.replace(text=change(part.text))
        case DataPart():
            return part.replace(data=_value(part.data, change), name=change(part.name) if part.name else part.name)
        case ToolResultPart():
            tool = _or_instead(part.tool, change, WITHHELD)
            return part.replace(result=_value(part.result, change), tool=tool)
        case ToolCallPart() if place == "tool_call":
            raw = change(part.raw) if part.raw is not None else None
            return part.replace(arguments=_object(part.arguments, change), raw=raw)
        case BlobPart():
            mime_type = _or_instead(part.mime_type, change, _NO_TYPE)
            return part.replace(name=change(part.name) if part.name else part.name, mime_type=mime_type)
        case ArtifactPart():
            mime = _or_instead(part.mime_type, change, _NO_TYPE) if part.mime_type else part.mime_type
            title = change(part.title) if part.title else part.title
            return part.replace(name=change(part.name), title=title, mime_type=mime)
        case UnknownPart():
            return part.replace(kind=_or_instead(part.kind, change, WITHHELD))
        case _:
            return part


def _object(value: dict[str, JsonValue], change: Change) -> dict[str, JsonValue]:
    return {change(key): _value(item, change) for key, item in value.items()}


def _value(value: JsonValue, change: Change) -> JsonValue:
    """Returns the JSON value with its texts and long numbers changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return _object(value, change)
    if isinstance(value, list | tuple):
        return [_value(item, change) for item in value]
    if isinstance(value, int) and abs(value) >= _LONG_NUMBER:
        text = str(value)
        changed = change(text)
        return value if changed == text else changed
    return value


Action = Literal["rewrite", "block"]
ACTIONS: tuple[Action, ...] = get_args(Action)
PLACES: tuple[Place, ...] = get_args(Place)


class Replacing:
    """Checks all strings of a content, nested ones too, at its `places`.

    Args:
        name: The guardrail's name in results.
        what: The name of the findings in reasons: "It held <what>: …".
        find: Finds the matches in a text.
        reach: How many characters of context a match needs.
        action: `rewrite` or `block`.
        places: Where to check.
    """

    def __init__(self, name: str, what: str, find: Find, *, reach: int, action: Action, places: Collection[Place]) -> None:
        self.name = name
        self.reach: int | None = reach if "answer" in checked_places(name, places) else 0
        self._what, self._find, self._places = what, find, frozenset(places)
        self._action = checked_action(name, action)

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        """Returns the verdict. Its reason names the kinds of findings, never their text.

        A call of a tool with a finding in its name is blocked.
        """
        if place not in self._places:
            return ALLOW
        kinds: set[str] = set()

        def change(text: str) -> str:
            found = kinds_in(text, self._find)
            kinds.update(found)
            return with_labels(text, self._find) if found else text

        in_name = place == "tool_call" and any(change(call.tool) != call.tool for call in content.tool_calls)
        changed = await map_strings_async(content, place, change)
        if not kinds:
            return ALLOW
        reason = f"It held {self._what}: {', '.join(sorted(kinds))}."
        # Another name would be another tool, so a call with a finding in its name is not made.
        if self._action == "block" or in_name:
            return GuardrailVerdict("block", reason=reason)
        return GuardrailVerdict("rewrite", changed, reason)


def checked_action(name: str, action: str) -> Action:
    """Returns the action. ConfigError for an unknown one."""
    for known in ACTIONS:
        if action == known:
            return known
    raise ConfigError(f"The guardrail {name!r} cannot {action!r}.", fix="Its action is rewrite or block.")


def checked_places(name: str, places: Collection[str]) -> Collection[str]:
    """Returns the places. ConfigError for an unknown one."""
    for place in places:
        if place not in PLACES:
            raise ConfigError(f"The guardrail {name!r} cannot stand at {place!r}.", fix=f"Places are {', '.join(PLACES)}.")
    return places
