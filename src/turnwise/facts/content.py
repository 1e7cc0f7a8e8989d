"""Content and its parts: text, files, data, thinking, and tool calls with their results.

Also the size and depth of values, texts by language, and texts that arrive in pieces.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Discriminator, Field, JsonValue, Tag

from turnwise.facts.fact import Fact, optional

Role = Literal["user", "agent"]


class Seal(Fact):
    """Opaque data that a provider wants back with a part, such as a signature. Only `provider` receives it."""

    provider: str
    data: dict[str, JsonValue] = Field(default_factory=dict)


class TextPart(Fact):
    kind: Literal["text"] = "text"
    text: str
    seal: Seal | None = optional(None)


class BlobPart(Fact):
    """Inline bytes, base64 in JSON."""

    kind: Literal["blob"] = "blob"
    data: bytes
    mime_type: str = "application/octet-stream"
    name: str | None = None


class ArtifactPart(Fact):
    """A reference to a stored artifact. An agent may give an http(s) URL as the name of a file elsewhere; it is never
    fetched.
    """

    kind: Literal["artifact"] = "artifact"
    name: str
    version: int | None = None
    """None means the latest version."""
    mime_type: str | None = None
    title: str | None = None
    """The name that a person gave the file."""


class ThinkingPart(Fact):
    """A model's thinking before its answer. Only the model of the same agent reads it again."""

    kind: Literal["thinking"] = "thinking"
    text: str = ""
    seal: Seal | None = optional(None)


class ToolCallPart(Fact):
    """A tool call."""

    kind: Literal["tool_call"] = "tool_call"
    call_id: str
    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    raw: str | None = optional(None)
    """The model's text when it is not a complete JSON object; `arguments` is then empty and the call is not made. In a
    partial event, the next piece of the arguments' text.
    """
    private: bool = optional(False)
    """True if other agents see neither the call nor its result."""
    offered: bool = optional(False)
    """True if the caller offered the tool with its message, and makes the call."""
    seal: Seal | None = optional(None)


class ToolResultPart(Fact):
    """The result of the tool call `call_id`."""

    kind: Literal["tool_result"] = "tool_result"
    call_id: str
    tool: str = ""
    result: JsonValue = None
    failed: bool = False
    """True if `result` describes an error."""


CHOICES = "choices"
"""The name of the data of a clarifying question: a list of {agent, label, description}, which its text lists, too."""


class DataPart(Fact):
    """Structured data for programs, such as the choices of a clarifying question."""

    kind: Literal["data"] = "data"
    data: JsonValue = None
    name: str | None = None
    private: bool = optional(False)
    """True if models do not see it."""


_KNOWN = frozenset({"text", "blob", "artifact", "thinking", "tool_call", "tool_result", "data"})
_NOT_UNKNOWN: list[JsonValue] = [*sorted(_KNOWN)]


class UnknownPart(Fact):
    """A part of an unknown kind, written by a newer version. It is kept unchanged and displayed as nothing."""

    model_config = ConfigDict(extra="allow")
    kind: str = Field(json_schema_extra={"not": {"enum": _NOT_UNKNOWN}})


def _tag(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return kind if isinstance(kind, str) and kind in _KNOWN else "unknown"


Part = Annotated[
    Annotated[TextPart, Tag("text")]
    | Annotated[BlobPart, Tag("blob")]
    | Annotated[ArtifactPart, Tag("artifact")]
    | Annotated[ThinkingPart, Tag("thinking")]
    | Annotated[ToolCallPart, Tag("tool_call")]
    | Annotated[ToolResultPart, Tag("tool_result")]
    | Annotated[DataPart, Tag("data")]
    | Annotated[UnknownPart, Tag("unknown")],
    Discriminator(_tag),
]


class Content(Fact):
    """One utterance."""

    role: Role = "agent"
    """The sender of the content."""
    parts: tuple[Part, ...] = ()
    """The parts in order."""

    @property
    def text(self) -> str:
        """All text parts, joined by line breaks; empty when there is none."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    def with_parts(self, parts: Iterable[Part]) -> Self:
        """Returns the content with those parts, from the same sender."""
        return self.replace(parts=tuple(parts))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))

    @property
    def tool_results(self) -> tuple[ToolResultPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolResultPart))


def text_content(text: str, role: Role = "agent") -> Content:
    """Returns a content with one text part."""
    return Content(role=role, parts=(TextPart(text=text),))


_MIN_OVERHEAD = 2
"""The minimum for quotes, commas and short numbers."""


def least_bytes(value: object, most: int) -> int:
    """Returns a lower bound of the value's size as JSON, in bytes. Stops counting above `most`."""
    count, open_ = 0, [iter((value,))]
    while open_ and count <= most:
        inner = _with_contents(open_[-1])
        for each, inside in inner:
            count += _MIN_OVERHEAD + (len(each) if isinstance(each, str) else 0)
            if inside is not None:
                open_.append(inside)
            if inside is not None or count > most:
                break
        else:
            open_.pop()
    return count


def _with_contents(values: Iterator[object]) -> Iterator[tuple[object, Iterator[object] | None]]:
    """Yields each value, with an iterator over its contents if it is an object or a list."""
    for value in values:
        if isinstance(value, Mapping):
            yield value, chain.from_iterable(value.items())
        else:
            yield value, iter(value) if isinstance(value, list | tuple) else None


DEEPEST = 100
"""The maximum nesting of objects and lists in a value. The JSON parser allows 200, including the levels of the log around
it.
"""


def is_deep(value: object, most: int = DEEPEST) -> bool:
    """Returns whether the value nests more than `most` objects and lists."""
    level: Sequence[object] = [value] if isinstance(value, Mapping | list | tuple) else []
    for _ in range(most):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return False
    return bool(level)


def holds_deep(content: Content) -> bool:
    """Returns whether a part of the content holds a value that is nested too deeply."""
    for part in content.parts:
        values = [part.model_extra, *(getattr(part, name, None) for name in ("data", "result", "arguments"))]
        if any(is_deep(value) for value in values):
            return True
    return is_deep(content.model_extra)


def _children(value: object) -> Sequence[object]:
    """Returns the objects and lists directly inside the value."""
    values = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [item for item in values if isinstance(item, Mapping | list | tuple)]


OTHER = "other"
"""The key of the text for all languages without one."""
MAX_LANGUAGES, MAX_CHARACTERS = 50, 500

_Text = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
_Language = Annotated[str, Field(pattern=rf"^([a-z]{{2}}|{OTHER})$")]
ByLanguage = Annotated[
    dict[_Language, _Text], Field(min_length=1, max_length=MAX_LANGUAGES, json_schema_extra={"required": [OTHER]})
]
Texts = _Text | ByLanguage
"""A text, or texts by ISO 639-1 code, with the key `other` for all other languages."""


def text_in(texts: str | Mapping[str, str], language: str | None) -> str:
    """Returns the text in that language; None = the language is not known. Without `other`, the first text is for the rest."""
    if isinstance(texts, str):
        return texts
    return texts.get(language or OTHER) or texts.get(OTHER) or next(iter(texts.values()))


class PartialText:
    """The beginning of a text, as far as its pieces arrived.

    A repeated piece counts once. A piece after a gap is ignored until the gap is filled; the final event brings the whole text.

    Attributes:
        length: The number of characters assembled.
    """

    def __init__(self) -> None:
        self.length = 0
        self._pieces: list[str] = []
        self._end = 0

    @property
    def text(self) -> str:
        """The assembled characters."""
        return "".join(self._pieces)

    def add(self, piece: str, offset: int | None = None) -> str:
        """Adds a piece and returns the part of it that continues the text; often all, "" if it repeats or leaves a gap.

        Args:
            piece: The piece.
            offset: The number of characters before the piece; None if it follows the previous one.
        """
        begin = self._end if offset is None else offset
        self._end = begin + len(piece)
        new = piece[self.length - begin :] if begin <= self.length else ""
        self._pieces.append(new)
        self.length += len(new)
        return new
