"""Content and its parts: text, files, data, thinking, and tool calls with their results."""

from collections.abc import Iterable
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
