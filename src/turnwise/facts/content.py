"""What is said: content and its parts."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, JsonValue, Tag

from turnwise.facts.fact import Fact, optional

Role = Literal["user", "agent"]


class Seal(Fact):
    """What a provider wants back with a part, unread: signatures and the like. Only `provider`, who made it, gets it."""

    provider: str
    data: dict[str, JsonValue] = Field(default_factory=dict)


class TextPart(Fact):
    kind: Literal["text"] = "text"
    text: str
    seal: Seal | None = optional(None)


class BlobPart(Fact):
    """Inline bytes. In JSON they are base64."""

    kind: Literal["blob"] = "blob"
    data: bytes
    mime_type: str = "application/octet-stream"
    name: str | None = None


class ArtifactPart(Fact):
    """A reference to a stored artifact; `version` None means the latest. `title` is the name a person gave it. An agent may
    name an http(s) URL instead, for a file that stands somewhere else; nothing here fetches it.
    """

    kind: Literal["artifact"] = "artifact"
    name: str
    version: int | None = None
    mime_type: str | None = None
    title: str | None = None


class ThinkingPart(Fact):
    """What a model thought before it answered; nobody but its author's model reads it again."""

    kind: Literal["thinking"] = "thinking"
    text: str = ""
    seal: Seal | None = optional(None)


class ToolCallPart(Fact):
    """A call of a tool. `raw` is what the model wrote when that is no JSON object, or not all of it is there; then
    `arguments` is empty, and the call is not made. In a partial event it is the next piece of the arguments' text.
    `private`: other agents neither see the call nor its result. `offered`: the caller offered the tool with its message, and
    is to make the call.
    """

    kind: Literal["tool_call"] = "tool_call"
    call_id: str
    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    raw: str | None = optional(None)
    private: bool = optional(False)
    offered: bool = optional(False)
    seal: Seal | None = optional(None)


class ToolResultPart(Fact):
    """What a tool gave for the call `call_id`; `failed` says that `result` describes an error."""

    kind: Literal["tool_result"] = "tool_result"
    call_id: str
    tool: str = ""
    result: JsonValue = None
    failed: bool = False


class DataPart(Fact):
    """Structured data for programs, such as the choices a clarifying question offers. `private`: no model is shown it."""

    kind: Literal["data"] = "data"
    data: JsonValue = None
    name: str | None = None
    private: bool = optional(False)


_KNOWN = frozenset({"text", "blob", "artifact", "thinking", "tool_call", "tool_result", "data"})
_NOT_UNKNOWN: list[JsonValue] = [*sorted(_KNOWN)]


class UnknownPart(Fact):
    """A part of a kind that a newer version wrote: kept whole, shown as nothing."""

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
    """One utterance: who it is from (`role`) and its parts in order."""

    role: Role = "agent"
    parts: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        """All text parts, joined by line breaks; empty when there is none."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))

    @property
    def tool_results(self) -> tuple[ToolResultPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolResultPart))


def text_content(text: str, role: Role = "agent") -> Content:
    """Content of one text part."""
    return Content(role=role, parts=(TextPart(text=text),))
